// Charts of one kind each, drawn by Chart.js from what the page's data says. Nothing is computed here but the picture.
"use strict";
const drawing = (() => {
  const shapes = ["circle", "rect", "triangle", "rectRot", "star", "crossRot", "rectRounded", "cross"];
  const dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5], [12, 4], [1, 4], [6, 2]];
  let ink = {};

  function readInk() {
    const style = getComputedStyle(document.documentElement);
    const of = name => style.getPropertyValue("--" + name).trim();
    ink = { text: of("ink"), soft: of("soft"), grid: of("grid"), sheet: of("sheet"), rule: of("rule"), quiet: of("quiet"), accent: of("accent"), bad: of("bad"),
            series: Array.from({ length: 8 }, (_, i) => of("c" + i)) };
  }
  const colorOf = place => ink.series[((place % 8) + 8) % 8];

  // "52.5 k", as the terminal has it.
  function short(value) {
    if (!Number.isFinite(value)) return "";
    const size = Math.abs(value);
    const steps = [["E", 1e18], ["P", 1e15], ["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]];
    for (const [prefix, unit] of steps) if (size >= unit) return trim(value / unit) + " " + prefix;
    return size !== 0 && size < 1e-3 ? value.toExponential(1) : trim(value);
  }
  function trim(value) { return String(Number(value.toPrecision(4))); }

  // A name that does not fit beside the bars is broken where its parts end, so that it stays whole: whose it is, then what it
  // is made of. A part that is longer than a line is broken inside.
  const ruler = document.createElement("canvas").getContext("2d");
  function measure(text, font = "12px ") {
    ruler.font = font + Chart.defaults.font.family;
    return ruler.measureText(text).width;
  }
  function broken(piece, most) {
    const rows = [];
    let row = "";
    for (const part of piece.match(/[^ /=,;_-]*[ /=,;_-]+|[^ /=,;_-]+/g) || []) {
      if (row && measure((row + part).trimEnd()) > most) { rows.push(row.trimEnd()); row = ""; }
      let rest = part;
      while (measure(rest.trimEnd()) > most) {
        let count = rest.length - 1;
        while (count > 1 && measure(rest.slice(0, count)) > most) --count;
        rows.push(rest.slice(0, count));
        rest = rest.slice(count);
      }
      row += rest;
    }
    if (row.trimEnd()) rows.push(row.trimEnd());
    return rows.length ? rows : [""];
  }
  function lines(label, width) {
    const most = Math.max(84, width * 0.4);
    if (measure(label) <= most) return [label];
    const owner = label.indexOf(": ");
    return owner < 0 ? broken(label, most) : [...broken(label.slice(0, owner), most), ...broken(label.slice(owner + 2), most)];
  }
  // Lying: names along the left, figures along x.
  const lies = spec => spec.kind === "bars" || spec.kind === "stack" || spec.kind === "tornado";

  // The least and the greatest that a chart has to show along one axis, whiskers and the line across too.
  function reach(spec, name) {
    const values = [];
    const own = lies(spec) ? "x" : "y";
    for (const set of spec.sets)
      for (const datum of set.data) {
        if (Number.isFinite(datum[name])) values.push(datum[name]);
        if (name === own && datum.low !== undefined) values.push(datum.low, datum.high);
      }
    if (name === own && spec.line !== null) values.push(spec.line);
    const fine = values.filter(Number.isFinite);
    return fine.length ? [Math.min(...fine), Math.max(...fine)] : [0, 1];
  }
  function limits(spec, name, before, after) {
    const [least, greatest] = reach(spec, name), span = greatest - least || Math.abs(greatest) || 1;
    const begin = least - before * span;
    const limit = { suggestedMin: begin, suggestedMax: greatest + after * span };
    // Neither a cost nor a speed is below nothing: the axis stays at 0 where all that is drawn does.
    if (begin < 0 && !spec.sets.some(set => set.data.some(datum => datum[name] < 0))) limit.min = 0;
    return limit;
  }

  // Of ratios: what is twice and what is half lie equally far from 1, and none is 0 or below.
  function ratioAxis(spec, width) {
    let [least, greatest] = reach({ kind: spec.kind, line: spec.line, sets: spec.sets.map(set => ({
      data: set.data.map(d => d.low > 0 && d.high > 0 ? d : { x: d.x }) })) }, "x");
    if (!(least > 0)) least = Math.min(1, greatest);
    const span = Math.max(greatest / least, 1.05), min = least / span ** 0.1, max = greatest * span ** (marksUnder(spec, width) ? 0.1 : 0.35);
    return { type: "logarithmic", min, max,
             afterBuildTicks(scale) { scale.ticks = ratioTicks(min, max, width < 500 ? 4 : 7).map(value => ({ value })); } };
  }
  // Where a verdict has no room beside its bar it stands under the name.
  function marksUnder(spec, width) { return Boolean(spec.logarithmic) && width < 500; }
  function ratioTicks(min, max, most) {
    const exact = value => Number(value.toPrecision(10)), between = value => value >= min && value <= max;
    const ticks = [];
    if (max / min < 5) {
      const raw = (max - min) / most, size = 10 ** Math.floor(Math.log10(raw));
      const step = size * [1, 2, 5, 10].find(factor => factor * size >= raw);
      for (let i = Math.ceil(min / step); i * step <= max; ++i) ticks.push(exact(i * step));
      return ticks;
    }
    const decades = Math.log10(max / min), every = Math.ceil(decades / most);
    const factors = decades * 3 <= most ? [1, 2, 5] : decades * 2 <= most ? [1, 3] : [1];
    for (let power = Math.floor(Math.log10(min)); power <= Math.log10(max); ++power)
      if (power % every === 0) ticks.push(...factors.map(factor => exact(factor * 10 ** power)).filter(between));
    return ticks;
  }

  // Whiskers, marks and the line across: what the library has no element for.
  const extras = {
    id: "extras",
    afterDatasetsDraw(chart) {
      const spec = chart.$spec, context = chart.ctx, area = chart.chartArea;
      context.save();
      context.font = "12px " + Chart.defaults.font.family;
      context.beginPath();
      context.rect(area.left - 12, area.top - 12, area.right - area.left + 24, area.bottom - area.top + 24);
      context.clip();
      spec.sets.forEach((set, s) => {
        const meta = chart.getDatasetMeta(s);
        if (meta.hidden) return;
        set.data.forEach((datum, i) => {
          const element = meta.data[i];
          if (!element) return;
          if (datum.low !== undefined) whisker(chart, context, element, datum, spec.kind === "bars");
        });
      });
      if (spec.line !== null) across(chart, context, spec, area);
      spec.sets.forEach((set, s) => {
        const meta = chart.getDatasetMeta(s);
        if (!meta.hidden) set.data.forEach((datum, i) => {
          if (datum.mark && meta.data[i] && !marksUnder(spec, chart.width)) mark(chart, context, meta.data[i], datum, lies(spec), area);
        });
      });
      context.restore();
    }
  };
  function whisker(chart, context, element, datum, lying) {
    const scale = lying ? chart.scales.x : chart.scales.y;
    const low = scale.getPixelForValue(datum.low), high = scale.getPixelForValue(datum.high);
    context.strokeStyle = ink.text;
    context.lineWidth = 1.4;
    context.beginPath();
    const tick = 4;
    if (lying) {
      context.moveTo(low, element.y); context.lineTo(high, element.y);
      for (const x of [low, high]) { context.moveTo(x, element.y - tick); context.lineTo(x, element.y + tick); }
    } else {
      context.moveTo(element.x, low); context.lineTo(element.x, high);
      for (const y of [low, high]) { context.moveTo(element.x - tick, y); context.lineTo(element.x + tick, y); }
    }
    context.stroke();
  }
  function mark(chart, context, element, datum, lying, area) {
    if (!lying) context.font = "600 12px " + Chart.defaults.font.family;
    const width = context.measureText(datum.mark).width;
    let x, y;
    if (lying) {
      const base = chart.$spec.line === null ? area.left : chart.scales.x.getPixelForValue(chart.$spec.line);
      const end = datum.high === undefined ? element.x : Math.max(element.x, chart.scales.x.getPixelForValue(datum.high));
      x = Math.max(end, base, area.left) + 8;
      y = element.y;
      if (chart.$spec.kind === "tornado" && end < base) x = Math.max(end - width - 8, area.left);
      if (x + width > area.right) x = area.right - width - 4;
      context.textBaseline = "middle";
    } else {
      x = Math.min(Math.max(element.x - width / 2, area.left), area.right - width);
      const high = datum.high === undefined ? element.y : chart.scales.y.getPixelForValue(datum.high);
      const low = datum.low === undefined ? element.y : chart.scales.y.getPixelForValue(datum.low);
      y = low + 24 > area.bottom ? Math.min(high, element.y) - 12 : low + 22;
      context.textBaseline = "alphabetic";
      context.strokeStyle = ink.text;
      context.lineWidth = 2;
      context.beginPath();
      context.arc(element.x, element.y, 10, 0, 2 * Math.PI);
      context.stroke();
    }
    context.lineWidth = 4;
    context.lineJoin = "round";
    context.strokeStyle = ink.sheet;
    context.strokeText(datum.mark, x, y);
    context.fillStyle = lying && datum.counts === false ? ink.quiet : ink.text;
    context.fillText(datum.mark, x, y);
  }
  function across(chart, context, spec, area) {
    const lying = lies(spec);
    const place = (lying ? chart.scales.x : chart.scales.y).getPixelForValue(spec.line);
    context.strokeStyle = context.fillStyle = ink.text;
    context.lineWidth = 1.2;
    context.setLineDash([5, 4]);
    context.beginPath();
    if (lying) { context.moveTo(place, area.top); context.lineTo(place, area.bottom); }
    else { context.moveTo(area.left, place); context.lineTo(area.right, place); }
    context.stroke();
    context.setLineDash([]);
    if (lying) return;
    context.textBaseline = "bottom";
    context.fillText(spec.line_label, area.right - context.measureText(spec.line_label).width - 2, place - 3);
  }

  function barSets(spec) {
    return spec.sets.map((set, s) => ({
      label: set.label,
      data: set.data.map(d => d.x),
      backgroundColor: set.data.map(d => {
        if (d.counts === false) return ink.grid;
        return colorOf(spec.kind === "bars" ? d.y : set.color);
      }),
      borderColor: set.data.map(d => d.counts === false ? ink.quiet : spec.kind === "stack" ? ink.sheet : colorOf(spec.kind === "bars" ? d.y : set.color)),
      borderWidth: 1, maxBarThickness: 20, minBarLength: spec.kind === "bars" ? 2 : 0, base: spec.line ?? undefined,
      grouped: spec.kind !== "tornado"
    }));
  }
  // Drawn as a line without its dots, whose pattern alone tells it from the others.
  function isBare(set) { return Boolean(set.style) || set.data.length > 40; }
  function dotSets(spec) {
    let lines = 0;
    return spec.sets.map(set => {
      const color = colorOf(set.color), isLine = spec.kind === "lines" || set.style === "line";
      const nth = set.style === "dashed" || !isLine ? 0 : lines++;
      return {
        label: set.label,
        data: set.data.map(d => ({ x: d.x, y: d.y })),
        showLine: isLine,
        borderColor: color,
        backgroundColor: set.data.map(d => d.counts === false ? ink.sheet : color),
        borderWidth: set.style === "line" ? 1.5 : 2,
        borderDash: set.style === "dashed" ? [2, 4] : set.style === "projected" ? [9, 5] : spec.kind === "lines" ? dashes[nth % dashes.length] : [],
        pointStyle: isBare(set) ? "line" : shapes[(set.shape ?? set.color) % shapes.length],
        pointRadius: isBare(set) ? 0 : spec.kind === "scatter" ? 6 : 4,
        pointHoverRadius: set.style ? 0 : 8, pointHitRadius: set.style ? 0 : 10,
        pointBorderColor: color, stepped: false, tension: 0
      };
    });
  }

  function axis(title, room, more) {
    return Object.assign({
      title: { display: Boolean(title), text: broken(title, room), color: ink.soft },
      ticks: { color: ink.soft, maxTicksLimit: 7, callback: value => short(value) },
      grid: { color: ink.grid, borderColor: ink.rule }
    }, more);
  }

  function optionsOf(spec, width) {
    const lying = lies(spec);
    const names = { color: ink.text, autoSkip: false, callback(value, i) {
      const label = this.getLabelForValue(value);
      return marksUnder(spec, width) ? [...lines(label, width), spec.sets[0].data[i].mark || ""] : lines(label, width);
    } };
    return {
      animation: false, responsive: true, maintainAspectRatio: false, indexAxis: lying ? "y" : "x",
      layout: { padding: { right: 12, top: 12 } },
      interaction: { mode: "nearest", axis: lying ? "y" : "xy", intersect: !lying },
      scales: lying
        ? { x: axis(spec.x_title, width * 0.55, spec.kind === "stack" ? { stacked: true, beginAtZero: true, max: endOf(spec) } : spec.logarithmic ? ratioAxis(spec, width)
                                  : spec.kind === "tornado" ? limits(spec, "x", width < 500 ? 0.3 : 0.12, width < 500 ? 0.3 : 0.12)
                                  : Object.assign({ beginAtZero: spec.from_zero }, limits(spec, "x", spec.from_zero ? 0 : 0.1, spec.from_zero ? 0.04 : width < 500 ? 0.9 : 0.35))),
            y: { stacked: spec.kind === "stack", grid: { display: false, borderColor: ink.rule }, ticks: names } }
        : { x: axis(spec.x_title, width * 0.8, Object.assign({ type: "linear" }, isWhole(spec) ? { ticks: { color: ink.soft, maxTicksLimit: 7, precision: 0, callback: short } } : {}, spec.kind === "scatter" ? limits(spec, "x", 0.1, 0.1) : {})),
            y: axis(spec.y_title, 200, Object.assign({ type: "linear", beginAtZero: spec.from_zero }, limits(spec, "y", spec.from_zero ? 0 : 0.15, 0.12))) },
      plugins: {
        legend: { display: false },
        tooltip: {
          backgroundColor: ink.text, titleColor: ink.sheet, bodyColor: ink.sheet, displayColors: false, caretPadding: 6,
          callbacks: { title: () => "", label: item => wrapped(spec.sets[item.datasetIndex].data[item.dataIndex].text || "", width) },
          filter: item => Boolean(spec.sets[item.datasetIndex].data[item.dataIndex].text)
        }
      }
    };
  }
  function wrapped(text, width) {
    const most = Math.max(24, Math.floor(width / 8));
    const lines = [""];
    for (const word of text.split(" ")) {
      if (lines[lines.length - 1] && lines[lines.length - 1].length + word.length + 1 > most) lines.push("");
      lines[lines.length - 1] += (lines[lines.length - 1] ? " " : "") + word;
    }
    return lines;
  }

  // Ranks and steps: there is nothing between two of them.
  function isWhole(spec) {
    return spec.kind === "lines" && spec.sets.every(set => set.style === "projected" || set.data.every(datum => Number.isInteger(datum.x)));
  }
  // What adds up to the whole ends there; sums of shares may miss it by a rounding.
  function endOf(spec) {
    if (spec.end === null) return undefined;
    const totals = spec.categories.map((_, i) => spec.sets.reduce((sum, set) => sum + set.data[i].x, 0));
    return Math.max(...totals) < spec.end * (1 + 1e-9) ? spec.end : undefined;
  }

  // The legend is a list below the picture, whose words break as any text does. A press hides and shows what it names.
  const outlines = ["M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0", "M-4 -4h8v8h-8z", "M0 -5L5 4H-5z", "M0 -5L5 0L0 5L-5 0z", "M-5 0H5M0 -5V5M-4 -4L4 4M-4 4L4 -4",
                    "M-4 -4L4 4M-4 4L4 -4", "M-4 -2Q-4 -4 -2 -4H2Q4 -4 4 -2V2Q4 4 2 4H-2Q-4 4 -4 2z", "M-5 0H5M0 -5V5"];
  function svg(name, attributes, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }
  function sample(spec, set, chart, s) {
    const color = colorOf(spec.kind === "bars" ? set.data[0]?.y ?? 0 : set.color);
    if (lies(spec)) return svg("svg", { width: 14, height: 12, "aria-hidden": "true" }, svg("path", { d: "M1 1h12v10h-12z", fill: color }));
    const dash = (chart.data.datasets[s].borderDash || []).join(" ");
    const line = svg("path", { d: "M0 6H28", stroke: color, "stroke-width": 2, "stroke-dasharray": dash || "none" });
    const dot = svg("path", { d: outlines[(set.shape ?? set.color) % outlines.length], transform: "translate(14 6)", fill: color, stroke: color });
    const isLine = spec.kind === "lines" || set.style === "line";
    return svg("svg", { width: 28, height: 12, "aria-hidden": "true" }, ...(isLine ? [line] : []), ...(isBare(set) ? [] : [dot]));
  }
  function fillLegend(list, spec, chart) {
    const named = spec.sets.map((set, s) => [set, s]).filter(([set]) => set.label);
    list.replaceChildren(...(named.length < 2 ? [] : named.map(([set, s]) => {
      const button = document.createElement("button"), item = document.createElement("li");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.append(sample(spec, set, chart, s), set.label);
      button.onclick = () => {
        const shown = !chart.isDatasetVisible(s);
        chart.setDatasetVisibility(s, shown);
        button.setAttribute("aria-pressed", String(shown));
        chart.update();
      };
      item.append(button);
      return item;
    })));
  }
  function heightOf(spec, width) {
    const most = Math.max(1, ...spec.categories.map(label => lines(label, width).length)) + (marksUnder(spec, width) ? 1 : 0);
    const row = 16 + 14 * most;
    const title = 16 * broken(spec.x_title, width * 0.55).length;
    if (lies(spec)) return 56 + title + row * spec.categories.length;
    return width < 500 ? 260 : 320;
  }

  // What arrow keys go through, in the order of reading.
  function stops(spec) {
    const all = [];
    spec.sets.forEach((set, s) => set.data.forEach((datum, i) => { if (datum.text) all.push([s, i]); }));
    if (spec.kind === "stack" || spec.kind === "tornado") all.sort((a, b) => a[1] - b[1] || a[0] - b[0]);
    return all;
  }

  function draw(canvas, spec, say, legend) {
    const width = canvas.parentElement.clientWidth || 600;
    canvas.parentElement.style.height = heightOf(spec, width) + "px";
    const lying = lies(spec);
    const chart = new Chart(canvas, {
      type: lying ? "bar" : "line",
      data: { labels: lying ? spec.categories : undefined, datasets: lying ? barSets(spec) : dotSets(spec) },
      options: optionsOf(spec, width),
      plugins: [{ id: "spec", beforeInit(one) { one.$spec = spec; } }, extras]
    });
    fillLegend(legend, spec, chart);
    const all = stops(spec);
    let at = -1;
    const show = place => {
      at = place;
      const [s, i] = all[at];
      const active = [{ datasetIndex: s, index: i }], element = chart.getDatasetMeta(s).data[i];
      chart.setActiveElements(active);
      chart.tooltip.setActiveElements(active, { x: element.x, y: element.y });
      chart.update();
      say(spec.sets[s].data[i].text);
    };
    canvas.onkeydown = event => {
      if (!all.length) return;
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Home") show(0);
      else if (event.key === "End") show(all.length - 1);
      else if (step) show((at + step + all.length) % all.length);
      else return;
      event.preventDefault();
    };
    canvas.onblur = () => {
      chart.setActiveElements([]);
      chart.tooltip.setActiveElements([], { x: 0, y: 0 });
      chart.update();
      say("");
    };
    return chart;
  }

  // Elements that stand somewhere on the canvas, without the lines that only lead the eye.
  function drawn(chart) {
    return chart.$spec.sets.reduce((sum, set, s) => set.style ? sum
      : sum + chart.getDatasetMeta(s).data.filter(e => Number.isFinite(e.x) && Number.isFinite(e.y) && !e.skip).length, 0);
  }
  return { readInk, draw, drawn, lies, measure };
})();
