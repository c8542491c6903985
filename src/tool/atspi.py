# What the programs on the screen tell of their windows over AT-SPI, as XML. argv: nodes at most. Without an answer on the
# bus, or without a program on it, nothing is printed.
import sys
import time
from xml.sax.saxutils import quoteattr

from gi.repository import Gio, GLib

MAX, DEPTH, SECONDS, CALL_MS = int(sys.argv[1]), 64, 10.0, 1000
STATES = {1: "active", 4: "checked", 7: "editable", 8: "enabled", 9: "expandable", 10: "expanded", 11: "focusable",
          12: "focused", 20: "pressed", 23: "selected", 24: "sensitive", 25: "showing", 30: "visible"}
A = "org.a11y.atspi."
left, end, out = MAX, time.monotonic() + SECONDS, []


def call(bus, name, path, interface, method, args, reply):
    return bus.call_sync(name, path, interface, method, args, GLib.VariantType(reply), Gio.DBusCallFlags.NONE,
                         CALL_MS, None).unpack()


def clean(text):
    return "".join(c if c in "\t\n" or c >= " " else " " for c in text[:2000])


def attributes(bus, name, path):
    role = call(bus, name, path, A + "Accessible", "GetRoleName", None, "(s)")[0]
    label = call(bus, name, path, "org.freedesktop.DBus.Properties", "Get", GLib.Variant("(ss)", (A + "Accessible", "Name")), "(v)")[0]
    low, high = (call(bus, name, path, A + "Accessible", "GetState", None, "(au)")[0] + [0, 0])[:2]
    bits = low | high << 32
    states = [word for bit, word in STATES.items() if bits >> bit & 1]
    text = f"role={quoteattr(clean(role))} name={quoteattr(clean(label))}"
    try:
        x, y, w, h = call(bus, name, path, A + "Component", "GetExtents", GLib.Variant("(u)", (0,)), "((iiii))")[0]
        text += f' x="{x}" y="{y}" width="{w}" height="{h}"'
    except GLib.Error:
        pass
    seen = role == "application" or "showing" in states
    if seen and role in ("entry", "text", "document text", "terminal", "spin button", "combo box"):  # not of passwords
        try:
            words = call(bus, name, path, A + "Text", "GetText", GLib.Variant("(ii)", (0, 2000)), "(s)")[0]
            text += f" text={quoteattr(clean(words))}" if words else ""
        except GLib.Error:
            pass
    return text + (f' states={quoteattr(" ".join(states))}' if states else "") if seen else None


def walk(bus, name, path, depth):
    global left
    if left <= 0 or depth > DEPTH or time.monotonic() > end:
        return
    left -= 1
    try:
        text = attributes(bus, name, path)
        if text is None:
            return
        children = call(bus, name, path, A + "Accessible", "GetChildren", None, "(a(so))")[0]
    except GLib.Error:  # it has just gone, or does not answer
        return
    if not children:
        out.append(f"{' ' * depth}<node {text}/>")
        return
    out.append(f"{' ' * depth}<node {text}>")
    for owner, child in children:
        if not child.endswith("/null"):
            walk(bus, owner, child, depth + 1)
    out.append(f"{' ' * depth}</node>")


try:
    session = Gio.bus_get_sync(Gio.BusType.SESSION, None)
    address = call(session, "org.a11y.Bus", "/org/a11y/bus", "org.a11y.Bus", "GetAddress", None, "(s)")[0]
    flags = Gio.DBusConnectionFlags.AUTHENTICATION_CLIENT | Gio.DBusConnectionFlags.MESSAGE_BUS_CONNECTION
    a11y = Gio.DBusConnection.new_for_address_sync(address, flags, None, None)
    programs = call(a11y, A + "Registry", "/org/a11y/atspi/accessible/root", A + "Accessible", "GetChildren", None, "(a(so))")[0]
except GLib.Error:
    programs = []
for owner, path in programs:
    walk(a11y, owner, path, 1)
if out:
    print("<desktop>\n" + "\n".join(out) + "\n</desktop>")
