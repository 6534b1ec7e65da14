// Runs a program of tests for WASI (wasm32-wasip1): node ci/wasi.mjs PROGRAM [ARGUMENT...]. It sees the variables that
// choose tests, and of the files those of the package, whose folder is compiled into it.
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const [program] = process.argv.slice(2);
const source = "/source";
const wasi = new WASI({
  version: "preview1",
  args: process.argv.slice(2),
  env: process.env,
  preopens: { [source]: source },
});
const module = await WebAssembly.compile(await readFile(program));
process.exitCode = wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject()));
