// Colours: the figures' own palettes (in the page's data) and two more scales, all safe for colour-blind readers.

const DATA = JSON.parse(document.getElementById("leo-data").textContent);
const VIRIDIS = ["#440154", "#482878", "#3e4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6dcd59", "#b4de2c", "#fde725"];
const PURPLE_ORANGE = ["#2d004b", "#542788", "#8073ac", "#b2abd2", "#d8daeb", "#f7f7f7", "#fee0b6", "#fdb863", "#e08214", "#b35806", "#7f3b08"];
const GREYS = ["#111111", "#f4f4f4"];
const SCALES = {
  cividis: { label: "cividis / blue-red", weights: DATA.palette.sequential, signed: DATA.palette.diverging },
  viridis: { label: "viridis / purple-orange", weights: VIRIDIS, signed: PURPLE_ORANGE },
  greys: { label: "greys / purple-orange", weights: GREYS, signed: PURPLE_ORANGE },
};
const ROLE_COLOURS = { special: 6, system: 5, picture: 2, question: 0, answer: 4, pad: 3 };
const THEMES = {
  light: { ground: "#ffffff", ink: "#20242c", line: "#d5d9e0", soft: "#e9ebef", muted: "#5a6372" },
  dark: { ground: "#14171f", ink: "#e4e7ee", line: "#3a404d", soft: "#262b36", muted: "#a3abba" },
};
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");

function isDark(view) {
  return view.theme === "auto" ? prefersDark.matches : view.theme === "dark";
}

function themeOf(view) {
  return THEMES[isDark(view) ? "dark" : "light"];
}

function rgb(hex) {
  return [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));
}

function hex(parts) {
  return "#" + parts.map((part) => Math.round(part).toString(16).padStart(2, "0")).join("");
}

// `part` of the first colour and the rest of the second.
function mixed(first, second, part) {
  const [a, b] = [rgb(first), rgb(second)];
  return hex(a.map((value, i) => part * value + (1 - part) * b[i]));
}

// Colour of a LoRA expert; after the last the colours return, mixed with the ink.
function category(index, view) {
  const colours = DATA.palette.categories;
  const round = Math.floor(index / colours.length);
  return mixed(colours[index % colours.length], themeOf(view).ink, 1 - 0.45 * Math.min(round, 2));
}

function roleColour(role) {
  return DATA.palette.categories[ROLE_COLOURS[role]];
}

const STEPS = 1024;
const tables = new Map();

// A scale as STEPS colours, each as text and as bytes.
function tableOf(colours) {
  const key = colours.join();
  if (!tables.has(key)) {
    const stops = colours.map(rgb);
    const bytes = new Uint8Array(STEPS * 3);
    const names = [];
    for (let step = 0; step < STEPS; step++) {
      const place = (step / (STEPS - 1)) * (stops.length - 1);
      const low = Math.min(Math.floor(place), stops.length - 2);
      const parts = stops[low].map((value, i) => Math.round(value + (place - low) * (stops[low + 1][i] - value)));
      bytes.set(parts, step * 3);
      names.push(hex(parts));
    }
    tables.set(key, { bytes, names });
  }
  return tables.get(key);
}

// Where a value lies on a scale, as a step of its table.
function stepOf(value, low, high) {
  const place = high > low ? (value - low) / (high - low) : 0.5;
  return Math.round(Math.min(Math.max(place, 0), 1) * (STEPS - 1));
}
