// Pictures of a figure, made by the browser that shows it. Used by the page and by the command line; needs Plotly.
const leoPicture = (() => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 48;
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const known = new Map();

  function ink(character, family) {
    pen.clearRect(0, 0, 48, 48);
    pen.font = `32px ${family}`;
    pen.fillText(character, 4, 36);
    return pen.measureText(character).width + ":" + pen.getImageData(0, 0, 48, 48).data.join();
  }

  // A font that lacks a character draws the same box for all that it lacks: U+0378 is assigned to nothing.
  function missing(character, family) {
    if (/[\x00-\x7e\p{Cf}\p{Variation_Selector}]/u.test(character)) return false;
    const key = family + character;
    if (!known.has(key)) known.set(key, ink(character, family) === ink("\u0378", family));
    return known.get(key);
  }

  function legible(text, family) {
    return Array.from(text, (c) => {
      if (!missing(c, family)) return c;
      const code = "U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
      return missing("⟨", family) ? `[${code}]` : `⟨${code}⟩`;
    }).join("");
  }

  // Every text of a figure; numbers in typed arrays, pictures and hover texts are left as they are.
  function walk(value, family) {
    if (typeof value === "string") return /[^\x00-\x7e]/.test(value) ? legible(value, family) : value;
    if (Array.isArray(value)) return value.map((one) => walk(one, family));
    if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
    const skipped = ["source", "customdata", "hovertemplate", "meta", "bdata"];
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, skipped.includes(key) ? one : walk(one, family)]));
  }

  function crc(bytes) {
    let value = ~0;
    for (const byte of bytes) {
      value ^= byte;
      for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
    }
    return ~value >>> 0;
  }

  // The chunk that tells a PNG's size on paper, right after the header (8 + 25 bytes).
  function withDensity(png, dpi) {
    const chunk = new Uint8Array(21), view = new DataView(chunk.buffer), perMetre = Math.round(dpi / 0.0254);
    view.setUint32(0, 9);
    chunk.set([0x70, 0x48, 0x59, 0x73], 4);
    view.setUint32(8, perMetre);
    view.setUint32(12, perMetre);
    chunk[16] = 1;
    view.setUint32(17, crc(chunk.subarray(4, 17)));
    const whole = new Uint8Array(png.length + 21);
    whole.set(png.subarray(0, 33));
    whole.set(chunk, 33);
    whole.set(png.subarray(33), 54);
    return whole;
  }

  // Bytes of one picture. figure: {data, layout}; format: svg or png; dpi counts against 96 pixels of the page.
  async function bytes(figure, format, dpi, width) {
    const layout = figure.layout || {};
    const family = layout.font?.family || layout.template?.layout?.font?.family || "sans-serif";
    const shown = { data: walk(figure.data, family), layout: { ...walk(layout, family), width, autosize: false }, config: { staticPlot: true } };
    const size = { format, width, height: layout.height || 450, scale: format === "png" ? dpi / 96 : 1 };
    const address = await window.Plotly.toImage(shown, size);
    if (format === "svg") return new TextEncoder().encode(decodeURIComponent(address.slice(address.indexOf(",") + 1)));
    return withDensity(Uint8Array.from(atob(address.slice(address.indexOf(",") + 1)), (c) => c.charCodeAt(0)), dpi);
  }

  // In the page: the figure inside an element becomes a file in the browser's downloads. Returns a sentence.
  async function save(id, name, format, dpi, width) {
    const shown = document.querySelector(`#${id} .js-plotly-plot`);
    if (!shown || !window.Plotly) return "The figure is not on the page yet: open its tab, wait until it is drawn, and save again.";
    try {
      const content = await bytes({ data: shown.data, layout: shown.layout }, format, dpi, width);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([content], { type: format === "svg" ? "image/svg+xml" : "image/png" }));
      link.download = `${name}.${format}`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
      return `${link.download} was handed to the browser's downloads.`;
    } catch (error) {
      return "The browser could not make this picture: try SVG, or a smaller resolution.";
    }
  }

  return { bytes, save };
})();
