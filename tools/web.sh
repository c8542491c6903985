#!/bin/sh
# Fetches what web/*/package-lock.json pin and lays it into build/web. Where npm or its registry cannot be
# reached, the files are empty and the page says that it was not built.
cd "$(dirname "$0")/.." || exit 2
from=web/terminal/node_modules/@xterm
mkdir -p build/web || exit 1
if [ ! -f $from/xterm/lib/xterm.js ] || [ ! -f $from/addon-unicode11/lib/addon-unicode11.js ]; then
    (cd web/terminal && timeout 120 npm ci --no-audit --no-fund --loglevel=error) >build/web/npm.log 2>&1 ||
        echo "web: npm could not fetch xterm.js (build/web/npm.log); /terminal will say so" >&2
fi
take() { if [ -f "$from/$1" ]; then sed '/^\/\/# sourceMappingURL=/d' "$from/$1" >"build/web/$2"; else : >"build/web/$2"; fi; }
take xterm/lib/xterm.js xterm.js
take xterm/css/xterm.css xterm.css
take addon-fit/lib/addon-fit.js addon-fit.js
take addon-unicode11/lib/addon-unicode11.js addon-unicode11.js

if [ ! -f web/vnc/node_modules/@novnc/novnc/core/rfb.js ]; then
    (cd web/vnc && timeout 120 npm ci --no-audit --no-fund --loglevel=error) >build/web/npm-vnc.log 2>&1 ||
        echo "web: npm could not fetch noVNC (build/web/npm-vnc.log); /vnc/ will say so" >&2
fi
if [ -f web/vnc/node_modules/@novnc/novnc/core/rfb.js ]; then
    tar --format=ustar --sort=name --owner=0 --group=0 --mtime=@0 -C web/vnc/node_modules/@novnc/novnc -cf build/web/novnc.tar core vendor
else
    : >build/web/novnc.tar
fi
