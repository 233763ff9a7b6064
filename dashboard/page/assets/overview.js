"use strict";
// Charts. Each is drawn from the table next to it, so that both always match; the page
// reloads its figures while it is visible.
(() => {
  const { $, $$, tick } = sallyport;
  const EVERY = 12_000;
  const charts = [];

  // ── colours and patterns, of the style ───────────────────────────────────
  const style = () => getComputedStyle(document.documentElement);
  const colour = (name) => style().getPropertyValue(name).trim();

  // fill returns a colour with a pattern, so that series differ without colour. It is
  // opaque, because series are painted over each other.
  function fill(name, pattern) {
    if (pattern === "plain") return colour(name);
    const scale = devicePixelRatio || 1, size = Math.round(8 * scale);
    const tile = document.createElement("canvas");
    tile.width = tile.height = size;
    const c = tile.getContext("2d");
    c.fillStyle = colour(name);
    c.fillRect(0, 0, size, size);
    c.strokeStyle = c.fillStyle = colour("--surface");
    c.lineWidth = 1.6 * scale;
    c.beginPath();
    if (pattern === "lines") {
      for (const at of [-size, 0, size]) { c.moveTo(at - 1, size + 1); c.lineTo(at + size + 1, -1); }
      c.stroke();
    } else {
      c.arc(size / 2, size / 2, 1.7 * scale, 0, 7);
      c.fill();
    }
    return c.createPattern(tile, "repeat");
  }

  // ── what a table says ────────────────────────────────────────────────────
  const rows = (table) => $$("tbody tr", table);
  const cells = (row) => [...row.cells].map((c) => c.textContent.trim());
  const numbers = (row) => cells(row).slice(1).map((t) => Number(t.replaceAll(",", "")));

  const kinds = {
    // One stacked bar per bucket. Parts are painted over each other, the longest first.
    modes: {
      parts: [["--c-deny", "dots"], ["--c-held", "lines"], ["--c-allow", "plain"]],
      time: true,
      data(table) {
        const all = rows(table), sums = all.map((r) => { let n = 0; return numbers(r).map((v) => (n += v)); });
        return [all.map((r) => Number(r.dataset.x)), ...[2, 1, 0].map((i) => sums.map((s) => s[i] || null))];
      },
    },
    waits: {
      parts: [["--c-held", "lines"]],
      data(table) {
        const all = rows(table);
        return [all.map((_, i) => i), all.map((r) => numbers(r)[0] || null)];
      },
    },
  };

  // clock formats a time on the axis; midnight shows the date.
  const hour = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
  function clock(seconds) {
    const t = new Date(seconds * 1000);
    return (t.getHours() || t.getMinutes() ? hour : day).format(t);
  }

  // reading returns the figures of a row as text.
  function reading(table, i) {
    const row = rows(table)[i];
    if (!row) return "";
    const [of, ...values] = cells(row), heads = cells($("thead tr", table)).slice(1);
    return `${of}: ${values.map((v, k) => `${v} ${heads[k]}`).join(", ")}`;
  }

  function options(figure, kind, table, data) {
    const soft = colour("--soft"), line = colour("--line");
    const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 5 }, font: "12px system-ui, sans-serif" };
    const last = data[0].length - 1, step = last > 0 ? data[0][1] - data[0][0] : 1;
    const words = rows(table).map((r) => cells(r)[0].replace("up to ", "≤ ").replace("over ", "> "));
    const x = kind.time
      ? { time: true, range: () => [data[0][0], data[0][last] + step] }
      : { time: false, range: () => [-0.6, last + 0.6] };
    return {
      width: figure.clientWidth, height: 220,
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
      scales: { x, y: { range: (_, __, most) => [0, Math.max(1, most) * 1.08] } },
      axes: [
        kind.time ? { ...axis, grid: { show: false }, size: 32, space: 70, values: (_, at) => at.map(clock) } : { ...axis, grid: { show: false }, size: 32, splits: () => data[0], values: (u, at) => at.map((i) => u.width < 640 && i % 3 ? "" : words[i]) },
        { ...axis, size: 52, incrs: [1, 2, 5].flatMap((n) => [1, 10, 100, 1000, 10000, 100000].map((m) => n * m)).sort((a, b) => a - b) },
      ],
      series: [{}, ...kind.parts.map(([name, pattern]) => ({
        fill: fill(name, pattern), stroke: colour(name), width: 1, points: { show: false },
        paths: uPlot.paths.bars({ size: [kind.time ? 0.86 : 0.7, 80], align: kind.time ? 1 : 0 }),
      }))],
      hooks: { setCursor: [(u) => { $(".reading", figure).textContent = u.cursor.idx == null ? "" : reading(table, u.cursor.idx); }] },
    };
  }

  function draw(chart) {
    const { figure, kind, table } = chart;
    chart.plot?.destroy();
    figure.hidden = false;
    if (!figure.clientWidth) return; // not visible yet
    const data = kind.data(table);
    chart.plot = new uPlot(options(figure, kind, table, data), data, $(".plot", figure));
    chart.plot.over.addEventListener("click", () => {
      const to = $("a", rows(table)[chart.plot.cursor.idx] || document.createElement("i"));
      if (to) location.assign(to.href);
    });
  }

  // ── live ─────────────────────────────────────────────────────────────────
  // local formats times in the time zone of the browser, as the charts do.
  const format = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  function local(root) {
    for (const t of $$("time[data-exact]", root)) { t.title ||= t.textContent; t.textContent = format.format(new Date(t.dateTime)); }
  }

  const rendered = new Map(); // what the server said last of each part
  const links = (part) => $$("a[href]", part);

  // replacePart updates the figures of a part and keeps a focused link.
  function replacePart(part, fresh) {
    if (rendered.get(part.id) === fresh.innerHTML) return false;
    rendered.set(part.id, fresh.innerHTML);
    const at = links(part).indexOf(document.activeElement);
    part.replaceChildren(...fresh.childNodes);
    local(part);
    if (at >= 0) links(part)[Math.min(at, links(part).length - 1)]?.focus({ preventScroll: true });
    return true;
  }

  async function refresh() {
    const res = await fetch(location.pathname + location.search, { credentials: "same-origin" });
    if (!res.ok || res.redirected) return;
    const page = new DOMParser().parseFromString(await res.text(), "text/html");
    // The first call adds sections to the page.
    if (!$("#o-empty", page) !== !$("#o-empty")) { location.reload(); return; }
    for (const box of $$("#o-waits-box, #o-denials-box")) box.hidden = $("#" + box.id, page).hidden;
    const changed = $$("[data-part]").filter((part) => replacePart(part, page.getElementById(part.id))).map((part) => part.id);
    for (const chart of charts) {
      if (changed.includes(chart.table.tBodies[0].id) || !chart.plot) draw(chart);
    }
    tick();
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const part of $$("[data-part]")) rendered.set(part.id, part.innerHTML);
    local(document);
    for (const figure of $$("[data-chart]")) charts.push({ figure, kind: kinds[figure.dataset.chart], table: document.getElementById(figure.dataset.of) });
    const all = () => charts.forEach(draw);
    all();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
    const sizes = new ResizeObserver(() => {
      for (const { figure, plot } of charts) if (plot && figure.clientWidth && plot.width !== figure.clientWidth) plot.setSize({ width: figure.clientWidth, height: plot.height });
    });
    for (const { figure } of charts) sizes.observe(figure);
    let busy;
    setInterval(() => {
      if (document.hidden || busy) return;
      busy = refresh().catch(() => {}).finally(() => { busy = undefined; });
    }, EVERY);
    sallyport.overview = { refresh };
  });
})();
