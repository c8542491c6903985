// The page /vnc/index.html: noVNC in front of the box's screen. Its address may say autoconnect, view_only, resize
// (scale, remote, off), and path: where the WebSocket is, with a ticket of its own if need be.
const params = new URLSearchParams(location.search);
const state = document.getElementById("state");
const screen = document.getElementById("screen");
const look = document.getElementById("look");
const connect = document.getElementById("connect");
const paste = document.getElementById("paste");
const yes = (name) => ["true", "1", ""].includes(params.get(name) ?? "no");
let rfb = null;

function show(text, kind) {
  state.textContent = text;
  state.className = kind;
}

// Relative to the box, not to the page: the page is at .../vnc/index.html, the socket at .../websockify.
function address(path) {
  const url = new URL(path, new URL("../", document.baseURI));
  if (params.get("ticket") && !url.searchParams.get("ticket")) url.searchParams.set("ticket", params.get("ticket"));
  return url;
}

function socket() {
  const url = address((params.get("path") || "websockify").replace(/^\/+/, ""));
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  if (look.checked) url.searchParams.set("view_only", "true");
  return url.href;
}

let RFB = null;
try {
  RFB = (await import("./core/rfb.js")).default;
} catch (e) {
  screen.textContent = "noVNC was not built into this server: run 'make' where npm reaches its registry.";
  show("not built", "down");
}

function open() {
  if (rfb) rfb.disconnect();
  show("connecting", "");
  const mine = new RFB(screen, socket(), { shared: true });
  rfb = mine;
  mine.background = "#16181d"; // of the page: noVNC's own leaves a stripe
  mine.viewOnly = look.checked;
  mine.scaleViewport = params.get("resize") !== "off" && params.get("resize") !== "remote";
  mine.resizeSession = params.get("resize") === "remote";
  mine.addEventListener("connect", () => {
    show(look.checked ? "looking on" : "connected", "up");
    paste.disabled = look.checked;
    mine.focus();
  });
  mine.addEventListener("disconnect", (e) => {
    if (rfb !== mine) return;
    rfb = null;
    connect.textContent = "Connect";
    paste.disabled = true;
    show(e.detail.clean ? "not connected" : "connection lost", "down");
    if (!e.detail.clean) explain();
  });
  mine.addEventListener("clipboard", (e) => { navigator.clipboard?.writeText(e.detail.text).catch(() => {}); });
  connect.textContent = "Disconnect";
}

// A WebSocket that was refused does not say why; the same question over HTTP does.
async function explain() {
  try {
    const r = await fetch(address("vnc/handover"));
    if (r.status === 401) show("your ticket is no longer good: ask for this page's address again", "down");
    else if (r.status === 404) show("this box is gone", "down");
  } catch (e) { show("the server is away", "down"); }
}

connect.onclick = () => { if (rfb) rfb.disconnect(); else if (RFB) open(); };
look.onchange = () => { if (rfb) open(); };
paste.disabled = true;
paste.onclick = async () => {
  try { if (rfb) rfb.clipboardPasteFrom(await navigator.clipboard.readText()); } catch (e) { show("the clipboard is shut", "up"); }
};
look.checked = yes("view_only");
if (RFB && yes("autoconnect")) open();

// A tool may wait for a person: what it asks is shown until somebody says that it is done.
const asked = document.getElementById("asked");

async function ask() {
  try {
    const r = await fetch(address("vnc/handover"));
    const waiting = r.ok ? (await r.json()).waiting : [];
    document.getElementById("message").textContent = waiting.map((w) => w.message).join(" · ");
    asked.className = waiting.length ? "on" : "";
  } catch (e) { /* the server is away; the state says so */ }
  setTimeout(ask, 2000);
}

document.getElementById("done").onclick = async () => {
  const r = await fetch(address("vnc/handover"), { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" });
  if (r.ok) asked.className = "";
  else show(r.status === 403 ? "only a person may say that: this is an agent's ticket" : "that could not be said", "down");
};
ask();
