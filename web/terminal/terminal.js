// The page /terminal. It keeps the session's name in its address and counts the bytes it has seen, so that a lost
// connection, or a restarted server, is picked up where it broke.
"use strict";

const params = new URLSearchParams(location.search);
const state = document.getElementById("state");
const screen = document.getElementById("screen");
let session = params.get("session_id") || "";
let offset = null; // of the output, once known
let socket = null;
let wait = 250;

if (typeof Terminal === "undefined") {
  screen.textContent = "xterm.js was not built into this server: run 'make' where npm reaches its registry.";
  throw new Error("no xterm.js");
}

const term = new Terminal({ cursorBlink: true, scrollback: 10000, fontSize: 14, allowProposedApi: false,
                            theme: { background: "#16181d" } });
const fit = new FitAddon.FitAddon();
term.loadAddon(fit);
term.open(screen);
fit.fit();
term.focus();

function show(text, kind) {
  state.textContent = text;
  state.className = kind;
}

function send(message) {
  if (socket && socket.readyState === WebSocket.OPEN) socket.send(message);
}

function address() {
  const url = new URL("v1/shell/ws", document.baseURI);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  url.searchParams.set("protocol", "binary");
  url.searchParams.set("cols", term.cols);
  url.searchParams.set("rows", term.rows);
  if (session) url.searchParams.set("session_id", session);
  if (session) url.searchParams.set("after", offset === null ? 0 : offset);
  for (const key of ["ticket", "api_key"]) if (params.get(key)) url.searchParams.set(key, params.get(key));
  return url;
}

function remember(id) {
  session = id;
  params.set("session_id", id);
  history.replaceState(null, "", "?" + params);
  document.getElementById("name").textContent = id;
  document.title = "Terminal " + id;
}

function control(message) {
  switch (message.type) {
    case "session_id": remember(message.data); break;
    case "ready": offset = message.offset; show("connected", "up"); wait = 250; break;
    case "gap": offset = message.offset; term.write("\r\n\x1b[7m some output was lost \x1b[0m\r\n"); break;
    case "size": // another tab may have another size: the terminal has one, and shows it to all
      if (message.data.cols !== term.cols || message.data.rows !== term.rows)
        term.resize(message.data.cols, message.data.rows);
      break;
    case "ping": send(JSON.stringify({ type: "pong", data: { timestamp: message.timestamp } })); break;
    case "exit": case "error":
      show(message.data, "down");
      if (message.type === "exit" || message.data === "Session not found") wait = -1;
      break;
  }
}

function connect() {
  show(offset === null ? "connecting" : "reconnecting", "");
  socket = new WebSocket(address());
  socket.binaryType = "arraybuffer";
  socket.onmessage = event => {
    if (typeof event.data === "string") return control(JSON.parse(event.data));
    const bytes = new Uint8Array(event.data);
    offset += bytes.length;
    term.write(bytes);
  };
  socket.onclose = () => {
    if (wait < 0) return;
    show("connection lost, trying again", "down");
    setTimeout(connect, wait);
    wait = Math.min(wait * 2, 5000);
  };
}

term.onData(text => send(new TextEncoder().encode(text)));
term.onBinary(text => send(Uint8Array.from(text, c => c.charCodeAt(0))));
function claimSize() {
  fit.fit();
  send(JSON.stringify({ type: "resize", data: { cols: term.cols, rows: term.rows } }));
}
new ResizeObserver(claimSize).observe(screen);
addEventListener("focus", claimSize); // the tab in use decides
document.getElementById("again").onclick = () => open(location.href, "_blank");
document.getElementById("fresh").onclick = () => {
  const url = new URL(location.href);
  url.searchParams.delete("session_id");
  open(url, "_blank");
};
connect();
