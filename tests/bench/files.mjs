// The baseline of the streams part: a plain Node server that stores and sends files and unpacks and packs tars.
import { spawn } from "node:child_process";
import { createReadStream, createWriteStream, mkdirSync } from "node:fs";
import { createServer } from "node:http";
import { pipeline } from "node:stream";

const [port, dir] = process.argv.slice(2);
createServer((request, response) => {
  const url = new URL(request.url, "http://x");
  const path = dir + url.searchParams.get("path");
  const done = error => { if (error) response.writeHead(500); response.end("{}"); };
  if (url.pathname === "/files" && request.method === "PUT") pipeline(request, createWriteStream(path), done);
  else if (url.pathname === "/files") pipeline(createReadStream(path), response, () => {});
  else if (request.method === "PUT") {
    mkdirSync(path, { recursive: true });
    const tar = spawn("tar", ["-x", "-C", path], { stdio: ["pipe", "ignore", "ignore"] });
    request.pipe(tar.stdin);
    tar.on("exit", done);
  } else {
    const tar = spawn("tar", ["-c", "-C", path, "."], { stdio: ["ignore", "pipe", "ignore"] });
    tar.stdout.pipe(response);
  }
}).listen(Number(port), "127.0.0.1", () => console.log("ready"));
