/**
 * A command line that runs a program so that it, and all that it started, ends when descriptor 3 is closed at its other
 * end: by whoever started it, or because that process died, however it died. It takes effect also on a program that
 * cares neither for the end of its input nor for SIGTERM, and on what it started in a session of its own, as long as
 * /proc can be read. The program takes the place of the shell, so its id, its exit and its streams are the shell's.
 *
 * After the end of its input the program has half a second, after SIGTERM two more.
 */
export const supervised = (command: string, args: ReadonlyArray<string>, mark: string) => ({
  command: "/bin/sh",
  args: ["-c", script, "sh", mark, command, ...args]
})

/** By this variable processes that left the group are known. */
const markVariable = "MCP_SERVER_INSTANCE"

const script = `
mark=$1
shift
{
  trap "" HUP INT TERM
  read -r _ <&3
  pause() {
    n=$1
    while [ "$n" -gt 0 ] && kill -0 $$; do
      sleep 0.1
      n=$((n - 1))
    done
  }
  pause 5
  kill -TERM 0
  pause 20
  for round in 1 2; do
    for file in $(grep -ls "${markVariable}=$mark" /proc/[0-9]*/environ); do
      pid=\${file#/proc/}
      kill -KILL "\${pid%/environ}"
    done
  done
  kill -KILL 0
} </dev/null >/dev/null 2>&1 &
exec 3<&-
export ${markVariable}="$mark"
exec "$@"
`
