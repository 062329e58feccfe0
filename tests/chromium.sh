#!/bin/sh
# Make sure the browser tests find a Chromium: one on the PATH, else Playwright's own, else Debian's package when root.
PY=$1
for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null 2>&1 && exit 0
done
"$PY" -c "
from pathlib import Path
from playwright.sync_api import sync_playwright
with sync_playwright() as p:
    raise SystemExit(not Path(p.chromium.executable_path).exists())
" 2>/dev/null && exit 0
"$PY" -m playwright install chromium >/dev/null 2>&1 && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt-get update -qq && apt-get install -y -qq chromium >/dev/null && exit 0
fi
echo "The browser tests need Chromium and none could be installed: put one on the PATH and run make test again." >&2
exit 1
