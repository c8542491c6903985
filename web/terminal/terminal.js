// The page /terminal. It keeps the session's name in its address and counts the bytes it has seen, so that a lost
// connection, or a restarted server, is picked up where it broke.
"use strict";

const params = new URLSearchParams(location.search);
const state = document.getElementById("state");
const screen = document.getElementById("screen");
let session = params.get("session_id") || "";
let offset = null; // of the output, once known
let socket = null;
let wait = 250; // until the next attempt; < 0: the session has ended
let ready = false; // what is typed arrives
let unsent = []; // typed while there was no connection
let replaying = false; // what is being written was on a screen before
let inUse = true; // no other tab of this browser has been used since on this session
const UNSENT_MAX = 65536, PIECE = 65536; // the server takes at most 1 MiB at a time

if (typeof Terminal === "undefined") {
  screen.textContent = "xterm.js was not built into this server: run 'make' where npm reaches its registry.";
  throw new Error("no xterm.js");
}

const term = new Terminal({ cursorBlink: true, scrollback: 10000, fontSize: 14, allowProposedApi: true,
                            theme: { background: "#16181d" } });
const fit = new FitAddon.FitAddon();
term.loadAddon(fit);
term.loadAddon(new Unicode11Addon.Unicode11Addon()); // characters are as wide as programs in a box think
term.unicode.activeVersion = "11";
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

// What is typed, pasted and answered. The tab in use decides about the size of the terminal that all of them show.
function type(bytes) {
  use();
  if (!ready) {
    const sum = unsent.reduce((n, piece) => n + piece.length, bytes.length);
    if (wait >= 0 && sum <= UNSENT_MAX) unsent.push(bytes);
    return;
  }
  for (let i = 0; i < bytes.length; i += PIECE) send(bytes.subarray(i, i + PIECE));
}

function sendUnsent() {
  const typed = unsent;
  unsent = [];
  typed.forEach(type);
}

// Programs ask the terminal what it is and where its cursor stands, and what it answers is typed. A question that was asked long ago must
// not be answered to whoever reads now, and one that several tabs show must be answered once.
const silent = () => replaying || !inUse;
for (const id of [{ final: "c" }, { prefix: ">", final: "c" }, { final: "n" }, { prefix: "?", final: "n" }, { final: "t" },
                  { intermediates: "$", final: "p" }, { prefix: "?", intermediates: "$", final: "p" }, { prefix: ">", final: "q" }])
  term.parser.registerCsiHandler(id, silent);
term.parser.registerDcsHandler({ intermediates: "$", final: "q" }, silent);
for (const id of [4, 10, 11, 12]) term.parser.registerOscHandler(id, data => data.includes("?") && silent());

function address() {
  const url = new URL("v1/shell/ws", document.baseURI);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  url.searchParams.set("protocol", "binary");
  if (inUse) url.searchParams.set("cols", term.cols);
  if (inUse) url.searchParams.set("rows", term.rows);
  if (session) url.searchParams.set("session_id", session);
  if (session) url.searchParams.set("after", offset === null ? 0 : offset);
  if (session) url.searchParams.set("restore", "true"); // says where the past ends
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
    case "session_id":
      remember(message.data);
      if (offset === null) tabs.postMessage(session);
      break;
    case "ready":
      if (message.resumed) term.write("", () => { replaying = true; }); // behind what was written before
      offset = message.offset;
      show("connected", "up");
      wait = 250;
      ready = true;
      sendUnsent();
      break;
    case "relay_resumed": term.write("", () => { replaying = false; }); break;
    case "gap": offset = message.offset; term.write("\r\n\x1b[7m some output was lost \x1b[0m\r\n"); break;
    case "size": // another tab may have another size: the terminal has one, and shows it to all
      if (message.data.cols !== term.cols || message.data.rows !== term.rows)
        term.resize(message.data.cols, message.data.rows);
      break;
    case "ping": send(JSON.stringify({ type: "pong", data: { timestamp: message.timestamp } })); break;
    case "exit": case "error":
      show(message.data, "down");
      if (message.type === "exit" || message.data === "Session not found") wait = -1;
      else setTimeout(() => { if (socket.readyState === WebSocket.OPEN) show("connected", "up"); }, 5000);
      break;
  }
}

function connect() {
  show(offset === null ? "connecting" : "reconnecting", "");
  socket = new WebSocket(address());
  socket.binaryType = "arraybuffer";
  socket.onmessage = event => {
    if (socket !== event.target) return;
    if (typeof event.data === "string") return control(JSON.parse(event.data));
    const bytes = new Uint8Array(event.data);
    offset += bytes.length;
    term.write(bytes);
  };
  socket.onclose = () => {
    ready = false;
    if (wait < 0) return;
    show("connection lost, trying again", "down");
    setTimeout(connect, wait);
    wait = Math.min(wait * 2, 5000);
  };
}

term.onData(text => type(new TextEncoder().encode(text)));
term.onBinary(text => type(Uint8Array.from(text, c => c.charCodeAt(0))));
function claimSize() {
  fit.fit();
  send(JSON.stringify({ type: "resize", data: { cols: term.cols, rows: term.rows } }));
}

const tabs = new BroadcastChannel("terminal");
tabs.onmessage = event => { if (event.data === session) inUse = false; };
function use() {
  const fits = fit.proposeDimensions();
  if (fits && (fits.cols !== term.cols || fits.rows !== term.rows)) claimSize();
  if (!inUse && session) tabs.postMessage(session);
  inUse = true;
}
new ResizeObserver(claimSize).observe(screen);
addEventListener("focus", use);
screen.addEventListener("pointerdown", use);

// Control-C is the program's, unless there is something to copy; with Shift it always copies, and does not open the browser's tools.
term.attachCustomKeyEventHandler(event => {
  if (event.type !== "keydown" || !event.ctrlKey || event.altKey || event.code !== "KeyC" || !(event.shiftKey || term.hasSelection())) return true;
  event.preventDefault();
  if (term.hasSelection()) document.execCommand("copy");
  term.clearSelection();
  return false;
});
document.getElementById("again").onclick = () => open(location.href, "_blank");
document.getElementById("fresh").onclick = () => {
  const url = new URL(location.href);
  url.searchParams.delete("session_id");
  open(url, "_blank");
};
connect();
