// Figures become interactive where scripts run; their still pictures stay everywhere else, and on paper.
document.querySelectorAll("figure.figure").forEach((figure) => {
  const place = figure.querySelector(".plot");
  const { data, layout } = JSON.parse(figure.querySelector("script").textContent);
  const draw = () => {
    const live = document.createElement("div");
    live.className = "live";
    place.append(live);
    const config = { displaylogo: false, responsive: true };
    return window.Plotly.newPlot(live, data, { ...layout, width: undefined, autosize: true }, config).then(
      () => place.classList.add("drawn"),
      () => live.remove(),
    );
  };
  // far pages of a long notebook are drawn when they come near
  const near = new IntersectionObserver(([entry]) => {
    if (!entry.isIntersecting) return;
    near.disconnect();
    draw();
  }, { rootMargin: "1200px" });
  near.observe(place);
});
