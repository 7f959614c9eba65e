// Writes compressed copies of the built files, so that the service never compresses them itself.
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const dist = new URL("../dist/", import.meta.url).pathname;
const files = readdirSync(dist, { recursive: true }).map((name) => join(dist, name));
let first = 0;
for (const file of files.filter((file) => /\.(js|css|html|svg)$/.test(file) && statSync(file).size > 512)) {
  const text = readFileSync(file);
  const brotli = brotliCompressSync(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } });
  writeFileSync(`${file}.br`, brotli);
  writeFileSync(`${file}.gz`, gzipSync(text, { level: 9 }));
  first += brotli.length;
}
console.log(`compressed: ${(first / 1024).toFixed(0)} KiB in all`);
