-- The body, if any, is a file named as the script's argument. One line of JSON at the end, with a leading mark.
function init(args)
  if args[1] then
    local file = assert(io.open(args[1], "r"))
    wrk.method = "POST"
    wrk.headers["content-type"] = "application/json"
    wrk.body = file:read("*a")
    file:close()
  end
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '\n#{"requests":%d,"micros":%d,"meanMicros":%.1f,"p99Micros":%.1f,"status":%d,"socket":%d,"timeout":%d}\n',
    summary.requests, summary.duration, latency.mean, latency:percentile(99),
    errors.status, errors.connect + errors.read + errors.write, errors.timeout
  ))
end
