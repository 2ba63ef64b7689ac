// Builds the page from its data, in the place of what stands there for readers without scripts. What a report says becomes
// text nodes and titles, never markup.
"use strict";
(() => {
  const root = document.documentElement;
  let errors = 0;
  const fault = () => { root.dataset.errors = String(++errors); };
  addEventListener("error", fault);
  document.addEventListener("securitypolicyviolation", fault);
  root.dataset.errors = "0";

  const data = JSON.parse(document.getElementById("data").textContent);
  const hasCharts = typeof Chart !== "undefined";
  const signs = { good: "✓", bad: "✗", note: "!", quiet: "–" };
  const live = [];  // what is drawn: {canvas, spec, say, chart}
  let ids = 0;

  function make(tag, props, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(props || {}))
      if (value !== undefined && value !== "") name === "class" ? element.className = value : element.setAttribute(name, value);
    for (const child of children) if (child !== undefined && child !== null) element.append(child);  // strings become text
    return element;
  }

  // Names of points may break after a slash; units, which have one, may not.
  function text(element, value) {
    for (const word of String(value).split(/(\S+\/\S+\/\S+)/)) {
      const parts = word.split("/");
      if (parts.length < 3) { element.append(word); continue; }
      parts.forEach((part, i) => {
        if (i + 1 === parts.length) element.append(part);
        else element.append(part + "/", document.createElement("wbr"));
      });
    }
    return element;
  }

  // A figure and its interval may stand below each other, neither is broken itself.
  function figure(element, value) {
    const at = value.search(/ [[(]/), parts = at < 0 ? [value] : [value.slice(0, at), value.slice(at + 1)];
    parts.forEach((part, i) => element.append(i ? " " : "", make("span", { class: "whole" }, part)));
    return element;
  }

  // A tile's figure and unit stay whole where they fit: browsers break lines after the slash of a unit.
  function boxes(said) {
    const element = make("dd", { class: "value" });
    said.split(/[ \u00a0]/).forEach((word, i) => element.append(i ? " " : "", make("span", { class: "word" }, word)));
    return element;
  }

  // Words with their sign, so that colour is never all that says it; the whole of a short name, and what is behind a sentence.
  function words(tag, value, props) {
    const { text: said, look, tip, more } = typeof value === "string" ? { text: value, look: "" } : value;
    const element = make(tag, Object.assign({ class: look, title: tip }, props)), inner = more ? make("summary") : element;
    if (signs[look] && said) inner.append(make("span", { class: "sign", "aria-hidden": "true" }, signs[look]));
    look === "number" ? figure(inner, said) : text(inner, said);
    if (more) element.append(make("details", {}, inner, make("ul", { class: "more" }, ...more.map(line => text(make("li"), line)))));
    return element;
  }

  // Roles are said, since a table whose rows are stacked (a phone, paper) is none to a browser any more.
  const most_columns_on_paper = 7;
  function table(spec) {
    const body = make("tbody", { role: "rowgroup" });
    const isNumber = spec.head.map((_, c) => spec.rows.some(row => row[c] && row[c].look === "number"));
    for (const row of spec.rows) {
      const line = make("tr", { role: "row" });
      row.forEach((cell, c) => {
        const look = typeof cell === "string" ? "" : cell.look, inner = words("span", cell);
        inner.className = "cell";
        const one = make(c === 0 ? "th" : "td", { class: look, role: c === 0 ? "rowheader" : "cell", scope: c === 0 ? "row" : "",
                                                  "data-head": spec.head[c] }, inner);
        if (isNumber[c]) one.classList.add("number");
        if (/\S{25}/.test(inner.textContent)) one.classList.add("long");
        if (inner.textContent === "") one.classList.add("empty");
        if (c > 0 && !isNumber[c] && inner.textContent.length > 40) one.classList.add("prose");
        line.append(one);
      });
      body.append(line);
    }
    const head = make("tr", { role: "row" });
    spec.head.forEach((name, c) => head.append(make("th", { scope: "col", role: "columnheader", class: isNumber[c] ? "number" : "" }, name)));
    return watched(make("div", { class: "scroll" },
                make("table", { role: "table", class: spec.head.length > most_columns_on_paper ? "wide" : "" },
                     make("caption", {}, spec.caption), make("thead", { role: "rowgroup" }, head), body)));
  }
  // Only what scrolls is a stop of the keyboard, and a region with a name.
  function watched(box) {
    const label = box.querySelector("caption").textContent;
    const look = () => {
      const scrolls = box.scrollWidth > box.clientWidth + 1;
      for (const [name, value] of [["tabindex", "0"], ["role", "region"], ["aria-label", label]])
        scrolls ? box.setAttribute(name, value) : box.removeAttribute(name);
    };
    new ResizeObserver(look).observe(box);
    return box;
  }
  function tableBlock(spec) {
    if (!spec.folded) return make("div", { class: "block" }, table(spec));
    return make("div", { class: "block" }, make("details", {}, make("summary", {}, spec.caption + " (" + spec.rows.length + ")"), table(spec)));
  }

  function chartBlock(spec, level) {
    const title = text(make("h" + level, { id: "chart-" + ++ids }), spec.title);
    const picture = make("div", { class: "drawing" }, title), whole = make("figure", { "aria-labelledby": title.id }, picture);
    if (spec.note) picture.append(make("p", { class: "chart-note" }, spec.note));
    if (!hasCharts) {
      whole.append(table(spec.table));
      return whole;
    }
    const said = make("p", { class: "said", role: "status" });
    const what = drawing.lies(spec) ? spec.categories.length + " bars"
      : spec.sets.reduce((sum, set) => sum + (set.style ? 0 : set.data.length), 0) + " points";
    // An application: a screen reader hands the arrow keys on, which it keeps to itself over a picture.
    const hint = make("p", { class: "hint", id: title.id + "-keys" }, "Use the arrow keys, Home and End to move through the chart; the table below has the same figures.");
    const canvas = make("canvas", { role: "application", "aria-roledescription": "chart", tabindex: "0", "aria-describedby": hint.id,
      "aria-label": spec.title + ": " + what + ", " + [spec.x_title, spec.y_title].filter(Boolean).join(" and ") });
    const legend = make("ul", { class: "legend" });
    picture.append(make("div", { class: "plot" }, canvas), legend, hint, said);
    whole.append(make("details", {}, make("summary", {}, "The same as a table"), table(Object.assign({}, spec.table, { caption: spec.title }))));
    live.push({ canvas, spec, legend, say: text => { said.textContent = text; }, chart: null });
    return whole;
  }

  function choiceBlock(spec) {
    const select = make("select", { id: "choice-" + ++ids });
    spec.options.forEach((option, i) => select.append(make("option", { value: String(i) }, option.name)));
    const place = make("div"), chosen = make("span", { class: "chosen" });
    const show = () => {
      for (let i = live.length - 1; i >= 0; --i)
        if (place.contains(live[i].canvas)) { if (live[i].chart) live[i].chart.destroy(); live.splice(i, 1); }
      const count = spec.options.length, rest = count > 1 ? " (one of " + count + "; the page shows the others)" : "";
      chosen.textContent = spec.label + ": " + spec.options[Number(select.value)].name + rest;
      place.replaceChildren(...spec.options[Number(select.value)].charts.map(chart => chartBlock(chart, 3)));
      if (place.isConnected) redraw();
    };
    select.addEventListener("change", show);
    const block = make("div", { class: "choice" }, make("p", {}, make("label", { for: select.id }, spec.label), select, chosen), place);
    show();
    return block;
  }

  function block(spec) {
    if (spec.type === "table") return tableBlock(spec);
    if (spec.type === "chart") return chartBlock(spec, 3);
    if (spec.type === "choice") return choiceBlock(spec);
    return make("div", { class: "block" }, words("p", spec));
  }

  // Sections without anything: their titles on one line, behind it the sentence of each; what is said of several, once.
  function absentBlock(sections) {
    if (!sections.length) return null;
    const list = make("dl"), said = new Map();
    for (const section of sections) {
      const words_of = section.blocks.map(one => one.text).join(" ");
      said.has(words_of) ? said.get(words_of).push(section) : said.set(words_of, [section]);
    }
    for (const [why, of] of said) {
      for (const section of of) list.append(make("dt", { id: section.id }, section.title));
      list.append(text(make("dd"), why));
    }
    return make("section", { id: "absent" }, make("div", { class: "block" },
      make("details", {}, make("summary", {}, "Not in this report: " + sections.map(one => one.title).join("; ")), list)));
  }

  function draw(one) {
    if (one.chart) one.chart.destroy();
    one.chart = null;
    if (one.canvas.closest("details:not([open])")) return;  // drawn when it is opened: what is hidden has no width
    one.chart = drawing.draw(one.canvas, one.spec, one.say, one.legend);
    one.canvas.dataset.drawn = String(drawing.drawn(one.chart));
  }
  function redraw() {
    if (!hasCharts) return;
    drawing.readInk();
    live.forEach(draw);
  }

  function build() {
    const page = document.getElementById("page");
    page.replaceChildren();
    const answer = make("div", { class: "answer" });
    for (const line of data.answer) answer.append(words("p", line));
    const caveats = make("ul", { class: "caveats" });
    for (const line of data.caveats) caveats.append(words("li", line));
    const cards = make("dl", { class: "cards" });
    for (const card of data.cards)
      cards.append(make("div", { class: "card" }, text(make("dt"), card.label), boxes(card.value), text(make("dd", { class: "detail" }), card.detail)));
    const machines = data.machines.length ? make("ul", { class: "machines" }, ...data.machines.map(one => make("li", {}, one))) : null;
    const overview = data.overview ? make("div", { class: "overview" }, tableBlock(data.overview)) : null;
    // Of a comparison the answer comes first, before what the machines are.
    page.append(make("header", {}, make("p", { class: "kind" }, "trainwatt " + data.kind), make("h1", {}, data.title), overview ? null : machines));
    const links = make("ul"), next = text(make("p", { class: "next" }), data.next),
      main = make("main", { id: "main", tabindex: "-1" }, answer, overview || cards, next);
    if (data.grounds.length) main.append(make("div", { class: "grounds" }, ...data.grounds.map(line => words("p", line))));
    main.append(caveats);
    if (overview && machines) main.append(machines);
    main.append(make("p", { class: "subtitle" }, data.subtitle));
    const nav = make("nav", { "aria-label": "Sections" }, links);
    main.append(nav);
    if (!hasCharts)
      main.append(words("p", { look: "note", text: "This trainwatt was built without its chart library, so that the page has tables only." }));
    for (const section of data.sections.filter(one => !one.absent)) {
      links.append(make("li", {}, make("a", { href: "#" + section.id }, section.title)));
      const heading = make("h2", { id: section.id + "-title" }, section.title);
      const element = make("section", { id: section.id, "aria-labelledby": heading.id });
      const inside = section.folded ? make("details", {}, make("summary", {}, heading)) : element;
      if (section.folded) element.append(inside); else inside.append(heading);
      if (section.lead) inside.append(make("p", { class: "lead" }, section.lead));
      for (const one of section.blocks) inside.append(block(one));
      main.append(element);
    }
    const absent = absentBlock(data.sections.filter(one => one.absent));
    if (absent) main.append(absent);
    page.append(main, make("footer", {}, make("p", {}, "Made by " + data.made_by + "."),
                                 make("p", {}, "This page loads nothing and runs its own script only. Checked by: trainwatt validate report.json.")));
  }

  build();
  if (hasCharts) {
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    redraw();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    addEventListener("beforeprint", () => { root.classList.add("paper"); for (const d of document.querySelectorAll("details")) d.open = true; redraw(); });
    addEventListener("toggle", event => live.filter(one => !one.chart && event.target.contains(one.canvas)).forEach(draw), true);
    addEventListener("afterprint", () => { root.classList.remove("paper"); redraw(); });
  }
  const speed = document.getElementById("speed");
  // A link to what is folded opens it.
  const unfold = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    const inside = target && target.querySelector(":scope > details");
    if (inside) inside.open = true;
  };
  addEventListener("hashchange", unfold);
  unfold();
  root.dataset.records = String(data.records);
  root.dataset.drawn = String(live.filter(one => speed.contains(one.canvas)).reduce((sum, one) => sum + Number(one.canvas.dataset.drawn), 0));
  root.dataset.charts = String(live.length);
  root.dataset.ready = "yes";
})();
