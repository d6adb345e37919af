import { enableCompileCache } from "node:module"

/**
 * Preloaded by `npm start`: Node keeps what it compiled, so that the next start takes less time than the first. It is
 * kept in the system's temporary folder, or where `NODE_COMPILE_CACHE` says.
 */
enableCompileCache()
