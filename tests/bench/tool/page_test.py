"""The HTML page in a browser: all records are drawn, nothing is asked of the network, no error, readable by keyboard. The
pictures, at 1280 and 390 px, light and dark, stay in $TRAINWATT_SCREENSHOTS."""
import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import browser

HANG = browser.HANG
TOOL = os.environ["TRAINWATT_TOOL"]
ROOT = pathlib.Path(__file__).resolve().parents[3]
FIXTURES = ROOT / "tests" / "results" / "fixtures"
PICTURES = pathlib.Path(os.environ.get("TRAINWATT_SCREENSHOTS", tempfile.gettempdir()))
EVIL = "</script><script>window.evil = 1</script><img src=x onerror='window.evil = 2'> \u2028 ${evil} @DATA@ <!--"


def load(name):
    return json.loads((FIXTURES / name).read_text())


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        program = browser.find()
        if program is None:
            raise unittest.SkipTest("no Chromium is installed (chromium)")
        PICTURES.mkdir(parents=True, exist_ok=True)
        cls.offers = pathlib.Path(tempfile.mkdtemp(prefix="trainwatt-offers-"))
        cls.addClassCleanup(shutil.rmtree, cls.offers, ignore_errors=True)
        subprocess.run([os.environ["TRAINWATT_WRITE_OFFERS"], str(cls.offers)], check=True, timeout=HANG)
        cls.browser = browser.Browser(program)
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainwatt-page-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def make(self, *reports, options=(), code=0):
        paths = []
        for i, report in enumerate(reports):
            path = self.folder / f"{i}.json"
            path.write_text(report.read_text() if isinstance(report, pathlib.Path) else json.dumps(report))
            paths.append(str(path) if len(reports) == 1 else f"Offer {i + 1}={path}")
        page = self.folder / "page.html"
        page.unlink(missing_ok=True)
        done = subprocess.run([TOOL, "html", *paths, "-o", str(page), *options], capture_output=True, text=True, timeout=HANG)
        self.assertEqual(done.returncode, code, done.stderr)
        return page

    def prices(self):
        path = self.folder / "prices.json"
        path.write_text(json.dumps({"currency": "EUR", "electricity_per_kwh": 0.25, "pue": 1.3, "systems": {
            "Offer 1": {"rent_per_month": 2000}, "Offer 2": {"rent_per_month": 2600, "note": "of three years"}},
            "note": "list prices of March"}))
        return path

    def rows(self, caption):
        """Of the table with that caption: each row's cells behind the first, by it."""
        return self.browser.evaluate(f"""Object.fromEntries([...document.querySelectorAll('table')]
            .filter(table => table.caption.textContent === {json.dumps(caption)})
            .flatMap(table => [...table.querySelectorAll('tbody tr')].map(row => [...row.children].map(cell => cell.textContent)))
            .map(([first, ...others]) => [first, others]))""")

    # Names beside bars, titles of axes and words of legends that reach beyond what they are drawn in.
    CUT = """(() => {
      const found = [];
      for (const canvas of document.querySelectorAll('canvas')) {
        const chart = Chart.getChart(canvas), font = '12px ';
        for (const scale of Object.values(chart.scales)) {
          const rows = scale.ticks.flatMap(tick => [tick.label].flat()).filter(Boolean).map(String);
          const room = scale.isHorizontal() ? chart.width : scale.width;
          for (const row of rows) if (drawing.measure(row) > room + 1) found.push(['tick', row]);
          const long = scale.isHorizontal() ? chart.width : chart.height;
          for (const row of [scale.options.title.text].flat()) if (drawing.measure(row) > long + 1) found.push(['title', row]);
        }
        for (const button of canvas.closest('.drawing').querySelectorAll('.legend button')) {
          const at = button.getBoundingClientRect();
          if (at.right > innerWidth || at.left < 0 || button.scrollWidth > button.clientWidth + 1) found.push(['legend', button.textContent]);
        }
      }
      return found;
    })()"""

    def unfold(self):
        """Opens folded sections, whose charts are drawn then."""
        self.browser.evaluate("""new Promise(done => {
          for (const one of document.querySelectorAll('section > details')) one.open = true;
          setTimeout(done, 100);
        })""")

    def tender(self, folder, run=""):
        """The page of three machines, A to C, in five runs each, or in one of them."""
        page, prices = self.folder / "tender.html", self.folder / "tender.json"
        page.unlink(missing_ok=True)
        prices.write_text(json.dumps({"currency": "EUR", "electricity_per_kwh": 0.25, "systems": {
            name: {"rent_per_month": rent, "electricity_included": True} for name, rent in (("A", 2000), ("B", 2200), ("C", 2050))}}))
        done = subprocess.run([TOOL, "html", *(f"{name}={self.offers / folder / name}{run}" for name in "ABC"), "--prices", str(prices),
                               "-o", str(page)], capture_output=True, text=True, timeout=HANG)
        self.assertEqual(done.returncode, 0, done.stderr)
        return page

    # Where the answer and the main table end, by height; what of them is small or soft; and whether symbols stand for words.
    FIRST = """(() => {
      const ink = getComputedStyle(document.body).color, answer = document.querySelector('.answer'), table = document.querySelector('.overview table');
      const bottom = of => of.getBoundingClientRect().bottom;
      return { answer: bottom(answer), row: bottom(table.querySelector('tbody tr')), text: answer.textContent,
        order: [...table.querySelectorAll('tbody th')].map(one => one.textContent),
        cells: [...table.querySelectorAll('tbody tr:first-child td')].map(one => one.className),
        soft: [...document.querySelectorAll('.answer p, .grounds p')]
          .filter(one => getComputedStyle(one).color !== ink || parseFloat(getComputedStyle(one).fontSize) < 16).length,
        cards: document.querySelectorAll('.card').length, symbols: [...document.querySelectorAll('.answer, .overview, .grounds, #ratios')].filter(one => / = /.test(one.textContent)).length };
    })()"""

    def test_the_first_screen_answers_which_machine_to_buy(self):
        """The first screen holds the answer and the main table's best row, with and without scripts, and no small or soft text beside them."""
        for folder, run, begins, look in (("winner", "", "B is better than A and C in speed (", ["good"] * 3),
                                          ("undecided", "", "Not decided: ", [""] * 3),
                                          ("winner", "/run-1/report.json", "Not decided: in this one run of each, which decides nothing, B was best in speed (", [""] * 3)):
            page = self.tender(folder, run)
            for width, height in ((1280, 800), (390, 844)):
                for runs_scripts in (True, False):
                    with self.subTest(folder=folder, run=run, width=width, runs_scripts=runs_scripts):
                        self.browser.call("Emulation.setScriptExecutionDisabled", value=not runs_scripts)
                        try:
                            self.browser.open(page, width, height=height)
                            first = self.browser.evaluate(self.FIRST)
                            whole = self.browser.evaluate("document.documentElement.scrollHeight")
                            step = self.browser.evaluate("document.querySelector('main .next').textContent")
                        finally:
                            self.browser.call("Emulation.setScriptExecutionDisabled", value=False)
                        self.assertTrue(first["text"].startswith(begins), first["text"])
                        self.assertIn("Next: ", step)
                        self.assertLess(max(first["answer"], first["row"]), height)
                        self.assertEqual((first["soft"], first["cards"], first["symbols"]), (0, 0, 0))
                        self.assertEqual(first["order"][0], "B")
                        self.assertEqual([one.replace("prose", "").strip() for one in first["cells"]], look)
                        self.assertLess(whole, 25 * height, "what each report says of itself is folded")
            name = folder if not run else "one-run"
            self.look(page, 6, picture=name, sizes=((1280, False), (390, False)))

    def look(self, page, records, picture=None, sizes=((1280, False), (1280, True), (390, False), (390, True))):
        for width, dark in sizes:
            self.browser.open(page, width, dark)
            state = self.browser.state()
            self.assertEqual(state.get("ready"), "yes", self.browser.complaints())
            self.assertEqual(state["errors"], "0")
            self.assertEqual(int(state["records"]), records)
            if int(state["charts"]) > 0:
                self.assertEqual(int(state["drawn"]), records, "one bar for each record")
            self.assertEqual(self.browser.requests(), [])
            self.assertEqual(self.browser.complaints(), [])
            Page.unfold(self)
            wide = self.browser.evaluate("document.documentElement.scrollWidth - innerWidth")
            self.assertLessEqual(wide, 0, f"scrolls sideways at {width}")
            squeezed = self.browser.evaluate("""[...document.querySelectorAll('canvas')].map(canvas => Chart.getChart(canvas))
              .filter(chart => chart.config.type === 'bar' && chart.chartArea.height / chart.data.labels.length < 18)
              .map(chart => chart.$spec.title)""") if int(state["charts"]) > 0 else []
            self.assertEqual(squeezed, [], f"the legend takes the bars' place at {width}")
            labels = self.browser.evaluate("""[...document.querySelectorAll('canvas')].map(canvas => Chart.getChart(canvas))
              .filter(chart => chart.config.type === 'bar')
              .map(chart => [chart.data.labels, chart.scales.y.ticks.map(tick => [tick.label].flat())])""") if int(state["charts"]) > 0 else []
            for names, shown in labels:
                for name, lines in zip(names, shown):
                    self.assertTrue(re.sub("[: ]", "", "".join(lines)).startswith(re.sub("[: ]", "", name)), f"{name} is {lines} at {width}")
            self.assertEqual(self.browser.evaluate(Page.CUT), [], f"at {width}")
            if picture:
                kept = PICTURES / f"{picture}-{width}-{'dark' if dark else 'light'}.png"
                self.browser.screenshot(kept)
                head = kept.read_bytes()[:24]  # IHDR: width, height
                self.assertEqual((head[:8], int.from_bytes(head[16:20], "big")), (b"\x89PNG\r\n\x1a\n", width), kept)
        return state

    def test_reports_as_they_are(self):
        for name, path in (("plain", FIXTURES / "good.json"), ("target", FIXTURES / "good_target.json"),
                           ("reference", ROOT / "results/reference/cpu-2core-amx/gpt2-124m-bf16.json")):
            with self.subTest(name=name):
                self.look(self.make(path), len(json.loads(path.read_text())["records"]), picture=name)

    def test_a_sweep_with_energy(self):
        page = self.make(self.offers / "offer1.json")
        self.look(page, 5, picture="sweep")
        # What a screen reader and a keyboard have: names, tables with as many rows, arrow keys, and no stop where nothing is to do.
        self.assertEqual(self.browser.evaluate("""[...document.querySelectorAll('canvas')].filter(c => c.getAttribute('role') !== 'application'
            || !c.getAttribute('aria-roledescription') || !document.getElementById(c.getAttribute('aria-describedby'))).length"""), 0)
        self.assertEqual(self.browser.evaluate("""[...document.querySelectorAll('.said')].filter(p => p.getAttribute('role') !== 'status').length"""), 0)
        for width in (1280, 700, 390):
            self.browser.open(page, width)
            self.browser.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
            stops = self.browser.evaluate("""new Promise(done => setTimeout(() => done([...document.querySelectorAll('.scroll')].map(box =>
                [box.querySelector('caption').textContent, box.scrollWidth > box.clientWidth + 1, box.tabIndex === 0 && box.getAttribute('role') === 'region'
                 && box.getAttribute('aria-label') === box.querySelector('caption').textContent, box.hasAttribute('aria-label')])), 200))""")
            for caption, scrolls, is_stop, is_named in stops:
                self.assertEqual((is_stop, is_named), (scrolls, scrolls), (caption, width))
            self.assertEqual(any(scrolls for _, scrolls, _, _ in stops), width != 390, "the widest scroll where rows are not stacked")
        self.browser.open(page)
        self.assertEqual(self.browser.evaluate("[...document.querySelectorAll('canvas')].filter(c => !c.getAttribute('aria-label') || c.tabIndex !== 0).length"), 0)
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('#speed tbody tr').length"), 5)
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('#points tbody tr').length"), 5)
        self.assertEqual(int(self.browser.evaluate("document.querySelector('#pareto canvas').dataset.drawn")), 5)
        self.browser.evaluate("document.querySelector('#pareto canvas').focus()")
        self.browser.press("ArrowRight")
        first = self.browser.evaluate("document.querySelector('#pareto .said').textContent")
        self.browser.press("ArrowRight")
        second = self.browser.evaluate("document.querySelector('#pareto .said').textContent")
        self.assertRegex(first, r"gpu_clock=810: .*samples/s.*J/sample")
        self.assertRegex(second, "gpu_clock=1110")
        ends = self.browser.evaluate("[...document.querySelectorAll('#phases canvas')].map(canvas => Chart.getChart(canvas).scales.x.max)")
        self.assertEqual(len(ends), 2, "phases, and operators")
        self.assertEqual(ends[1], 100, "shares of a step end at the whole")
        # Another point's series.
        self.browser.evaluate("(s => { s.value = '4'; s.dispatchEvent(new Event('change')); })(document.querySelector('#telemetry select'))")
        self.assertIn("power_w", self.browser.evaluate("document.querySelector('#telemetry table').textContent"))
        # Whose they are, where there is no selection to see.
        names = self.browser.evaluate("[...document.querySelectorAll('#telemetry canvas')].map(c => c.getAttribute('aria-label'))")
        for name in names:
            self.assertRegex(name, "(Power|Clocks|Temperature), .*GPU clock 1980 MHz: ")
        self.browser.call("Emulation.setEmulatedMedia", media="print")
        printed = self.browser.evaluate("document.getElementById('telemetry').innerText")
        self.browser.call("Emulation.setEmulatedMedia", media="")
        self.assertRegex(printed, "Point: .*GPU clock 1980 MHz.*one of 5")
        self.assertNotIn("Point: ", self.browser.evaluate("document.getElementById('telemetry').innerText"))
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('#telemetry canvas').length"), 3)
        self.assertEqual(self.browser.state()["errors"], "0")

    def test_a_comparison(self):
        page = self.make(self.offers / "offer1.json", self.offers / "offer2.json", options=("--prices", str(self.prices())))
        self.look(page, 10, picture="comparison")
        self.assertTrue(self.browser.evaluate("document.querySelector('.answer').textContent").startswith("Not decided: in this one run of each"))
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.answer .good, .overview .good').length"), 0, "nobody has won")
        self.assertIn("one run of each decides nothing", self.browser.evaluate("document.querySelector('.answer').textContent").lower())
        # Charts of folded sections are drawn when they are opened, and no sooner.
        drawn = "[...document.querySelectorAll('#phases canvas')].filter(canvas => Chart.getChart(canvas)).length"
        self.browser.open(page)
        self.assertEqual(self.browser.evaluate(drawn), 0)
        self.unfold()
        self.assertGreater(self.browser.evaluate(drawn), 0)
        self.assertIn("Offer 2 against Offer 1", self.browser.evaluate("document.title"))
        caveats = self.browser.evaluate("document.querySelector('.caveats').textContent")
        for said in ("Offer 1, Offer 2: ", "Offer 2: ", "un rule", "ach system was run once"):
            self.assertIn(said, caveats)
        self.assertIn("Offer 1 started ", self.browser.evaluate("document.querySelector('.subtitle').textContent"))
        for section in ("ratios", "comparability", "cost", "pareto", "speed", "provenance"):
            self.assertTrue(self.browser.evaluate(f"document.getElementById('{section}') !== null"), section)

    def test_nothing_in_a_report_is_markup(self):
        def spoil(value, key=""):
            if isinstance(value, dict):
                return {name: spoil(one, name) for name, one in value.items()}
            if isinstance(value, list):
                return [spoil(one, key) for one in value]
            free = {"id", "model", "suite", "name", "cpu", "host", "domain", "reason", "reasons", "flags", "warnings", "detail", "argv",
                    "started_at", "git_commit", "os", "kernel", "energy_reason", "of_ceiling_reason", "optimizer", "launcher"}
            return EVIL if key in free and isinstance(value, str) else value
        report = spoil(load("good_energy.json"))
        page = self.make(report)
        text = page.read_text()
        self.assertEqual(len(re.findall("<script", text)), 3, "ours")
        self.assertNotIn("<img", text.split('id="data">')[1].split("</script>")[0])
        self.look(page, 1, sizes=((390, False),))
        self.assertIsNone(self.browser.evaluate("window.evil"))
        self.assertIn("window.evil", self.browser.evaluate("document.querySelector('#points').textContent"), "as text")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('img, iframe, object, link, script[src]').length"), 0)

    # Title, answer and tables as they stand in the document, and what must not be there.
    PARTS = """({ titles: document.querySelectorAll('h1').length, answers: document.querySelectorAll('.answer').length,
      said: document.querySelector('.answer').textContent, tables: document.querySelectorAll('#static table').length,
      rows: document.querySelectorAll('#static tbody tr').length, points: document.querySelectorAll('#points tbody tr').length,
      canvases: document.querySelectorAll('canvas').length, images: document.querySelectorAll('img').length,
      wide: document.documentElement.scrollWidth - innerWidth, evil: window.evil === undefined })"""

    def without_scripts(self, page, width=1280, dark=False, picture=None):
        self.browser.call("Emulation.setScriptExecutionDisabled", value=True)
        try:
            self.browser.open(page, width, dark)
            self.assertEqual(self.browser.requests(runs_scripts=False), [])
            if picture:
                self.browser.screenshot(PICTURES / f"{picture}-{width}-noscript.png", runs_scripts=False)
            return self.browser.evaluate(self.PARTS)
        finally:
            self.browser.call("Emulation.setScriptExecutionDisabled", value=False)

    def test_without_scripts(self):
        """The answer and the main table are there without scripts, and with them nothing is there twice."""
        offers = [self.offers / f"offer{i}.json" for i in (1, 2, 3)]
        for name, reports, options in (("plain", (FIXTURES / "good.json",), ()),
                                       ("three", offers, ("--prices", str(self.prices()), "--price-of", "Offer 3=Offer 1"))):
            page = self.make(*reports, options=options)
            points = sum(len(json.loads(path.read_text())["records"]) for path in reports)
            for width in (1280, 390):
                alone = self.without_scripts(page, width, picture=f"{name}-static")
                self.assertEqual((alone["titles"], alone["answers"], alone["canvases"], alone["images"]), (1, 1, 0, 0))
                self.assertGreaterEqual(alone["rows"], points)
                self.assertLessEqual(alone["wide"], 0, f"scrolls sideways at {width}")
                self.browser.open(page, width)
                drawn = self.browser.evaluate(self.PARTS)
                self.assertEqual((drawn["titles"], drawn["answers"], drawn["tables"]), (1, 1, 0), "nothing is there twice")
                self.assertEqual(drawn["points"], points)
                self.assertEqual(re.sub(r"\W", "", alone["said"]), re.sub(r"\W", "", drawn["said"]))

    def test_nothing_in_a_report_is_markup_without_scripts(self):
        report = load("good.json")
        for record in report["records"]:
            record["id"] += EVIL
        report["plan"]["suite"] = report["context"]["hosts"][0]["name"] = report["context"]["hosts"][0]["cpu"] = EVIL
        alone = self.without_scripts(self.make(report), 390)
        self.assertEqual((alone["images"], alone["evil"], alone["rows"]), (0, True, len(report["records"])))

    def test_a_tornado_and_bars_are_sorted(self):
        page = self.make(self.offers / "offer1.json", options=("--prices", str(self.prices()), "--price-of", "Offer 2"))
        for width in (1280, 390):
            self.browser.open(page, width)
            self.assertEqual(self.browser.evaluate(self.CUT), [])
            bars = self.browser.evaluate("Chart.getChart(document.querySelector('#speed canvas')).data.datasets[0].data")
            self.assertEqual(bars, sorted(bars, reverse=True))
            tornado = self.browser.evaluate("""(() => {
              const chart = [...document.querySelectorAll('#cost canvas')].map(canvas => Chart.getChart(canvas)).find(one => one.$spec.kind === 'tornado');
              return { lengths: chart.data.datasets.map(set => set.data), tops: chart.getDatasetMeta(0).data.map(bar => bar.y),
                       other: chart.getDatasetMeta(1).data.map(bar => bar.y), labels: chart.data.labels };
            })()""")
            effects = [max(map(abs, pair)) for pair in zip(*tornado["lengths"])]
            self.assertEqual(effects, sorted(effects, reverse=True))
            self.assertEqual(tornado["tops"], tornado["other"], "both sides of one input lie in one row")
            self.assertEqual(len(tornado["labels"]), len(effects))

    def test_what_is_absent_is_on_one_line(self):
        self.browser.open(self.make(FIXTURES / "good.json"))
        found = self.browser.evaluate("""({ absent: [...document.querySelectorAll('#absent dt')].map(one => one.id),
          open: document.querySelector('#absent details').open, links: [...document.querySelectorAll('nav a')].map(one => one.hash.slice(1)),
          behind: document.querySelectorAll('.caveats details li').length })""")
        self.assertLessEqual({"energy", "pareto", "telemetry", "scaling", "cost"}, set(found["absent"]))
        self.assertEqual(set(found["absent"]) & set(found["links"]), set())
        self.assertFalse(found["open"])
        self.assertGreaterEqual(found["behind"], 1, "why energy was not measured")
        self.assertNotIn("--search", self.browser.evaluate("document.body.innerText"), "no knob, no search")

    def test_short_names_have_the_whole_id_behind_them(self):
        self.browser.open(self.make(self.offers / "offer1.json"))
        ids = [record["id"] for record in json.loads((self.offers / "offer1.json").read_text())["records"]]
        self.assertEqual(self.browser.evaluate("[...document.querySelectorAll('#points tbody th .cell')].map(one => one.title)"), ids)

    def test_a_script_that_gets_in_all_the_same_does_not_run(self):
        page = self.make(FIXTURES / "good.json")
        page.write_text(page.read_text().replace("<div id=\"page\">", "<script>window.evil = 1</script><div id=\"page\">"))
        self.browser.open(page)
        self.assertIsNone(self.browser.evaluate("window.evil"))

    # What of the tables lies beyond the page, or beyond what its own box shows.
    HIDDEN = """(() => {
      const page = document.querySelector("main").getBoundingClientRect(), found = [];
      for (const table of document.querySelectorAll("table")) {
        const box = table.parentElement;
        if (box.scrollWidth > box.clientWidth + 1) found.push("scrolls: " + table.caption.textContent);
        for (const cell of table.querySelectorAll("tbody th, tbody td")) {
          const at = cell.getBoundingClientRect();
          if (at.width > 0 && (at.right > Math.min(innerWidth, page.right) + 1 || at.left < 0 || cell.scrollWidth > cell.clientWidth + 1))
            found.push(cell.dataset.head + " of " + table.caption.textContent);
        }
      }
      return found;
    })()"""

    def pages_with_many_tables(self):
        """A comparison with its costs, and a report of many columns."""
        yield self.make(self.offers / "offer1.json", self.offers / "offer2.json", options=("--prices", str(self.prices())))
        yield self.make(ROOT / "results/reference/cpu-2core-amx/gpt2-124m-bf16.json")

    def test_no_column_is_out_of_sight_on_a_phone(self):
        for page in self.pages_with_many_tables():
            self.browser.open(page, 390)
            self.browser.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
            self.assertEqual(self.browser.evaluate(self.HIDDEN), [])
            # The last cell of each row that says anything is in sight, with its heading's name.
            self.assertEqual(self.browser.evaluate("""[...document.querySelectorAll('tbody tr')].filter(row => {
              const cells = [...row.children].filter(cell => cell.textContent), last = cells[cells.length - 1];
              const at = last.getBoundingClientRect(), head = getComputedStyle(last, '::before').content;
              return at.width === 0 || at.right > innerWidth || (cells.length > 1 && head !== JSON.stringify(last.dataset.head));
            }).map(row => row.textContent)"""), [])
        self.assertTrue(self.browser.evaluate("[...document.querySelectorAll('td')].every(td => td.getAttribute('role') === 'cell')"))

    def test_on_paper(self):
        for page in self.pages_with_many_tables():
            # A4 lying, as the page asks for; and standing, as a reader may ask for all the same.
            for width in (1032, 703):
                self.browser.open(page, width, dark=True)
                self.browser.call("Emulation.setEmulatedMedia", media="print")
                self.browser.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
                self.assertEqual(self.browser.evaluate(self.HIDDEN), [], width)
                self.browser.call("Emulation.setEmulatedMedia", media="")
            self.browser.open(page, dark=True)
            pdf = base64.b64decode(self.browser.call("Page.printToPDF", preferCSSPageSize=True)["data"])
            (PICTURES / "paper.pdf").write_bytes(pdf)
            self.assertGreater(len(pdf), 20000)
            sheets = {tuple(round(float(one)) for one in box.split()) for box in re.findall(rb"/MediaBox \[([^]]*)\]", pdf)}
            self.assertEqual(sheets, {(0, 0, 842, 595)}, "A4, lying")
            self.assertEqual(self.browser.state()["errors"], "0")

    def test_no_axis_shows_what_cannot_be(self):
        page = self.make(self.offers / "offer1.json", self.offers / "offer2.json", options=("--prices", str(self.prices())))
        for width in (1280, 390):
            self.browser.open(page, width)
            axes = self.browser.evaluate("""[...document.querySelectorAll('#ratios canvas')].map(canvas => {
              const axis = Chart.getChart(canvas).scales.x;
              return { type: axis.type, least: axis.min, ticks: axis.ticks.map(tick => tick.value) };
            })""")
            self.assertGreaterEqual(len(axes), 3)
            for axis in axes:
                self.assertEqual(axis["type"], "logarithmic")
                self.assertGreater(axis["least"], 0)
                self.assertGreaterEqual(len(axis["ticks"]), 2)
            least = self.browser.evaluate("""[...document.querySelectorAll('#pareto canvas')].map(canvas =>
              Math.min(Chart.getChart(canvas).scales.x.min, Chart.getChart(canvas).scales.y.min))""")
            self.assertGreaterEqual(len(least), 2)
            self.assertGreaterEqual(min(least), 0)

    def test_one_report_with_its_costs(self):
        page = self.make(self.offers / "offer1.json", options=("--prices", str(self.prices()), "--price-of", "Offer 2"))
        self.look(page, 5, picture="costs", sizes=((1280, False), (390, False)))
        text = self.browser.evaluate("document.getElementById('cost').textContent")
        for said in ("per million samples", "kWh", "electricity per kWh"):
            self.assertIn(said, text)
        inputs = self.rows("Prices, as given")
        path = str(self.prices())
        self.assertEqual(inputs["note of the prices"], ["list prices of March", path])
        self.assertEqual(inputs["note"], ["of three years", f"{path}, row Offer 2"])
        self.assertEqual(inputs["rent"], ["2600 EUR per node and month", f"{path}, row Offer 2"])
        self.assertEqual(inputs["PUE"], ["1.3", f"{path}, for all systems"])
        self.assertEqual(inputs["utilisation"], ["100 % of the hours paid for", "default, since none is given"])
        self.assertIn("against cost", self.browser.evaluate("document.getElementById('pareto').textContent"))

    def test_a_report_of_a_newer_minor_version_says_so(self):
        report = load("good.json")
        report["schema_version"], report["more"] = "1.99", EVIL
        said = '/schema_version: "1.99" is newer than 1.0, which this program knows: newer fields were not checked'
        self.look(self.make(report), len(report["records"]), picture="newer", sizes=((1280, False), (390, False)))
        self.assertIn(f"trainwatt validate notes: {said}.", self.browser.evaluate("document.querySelector('.caveats').textContent"))
        self.assertEqual(self.rows("Where the figures come from")["note (trainwatt validate)"], [said])
        self.look(self.make(load("good_energy.json"), report, code=4), 1 + len(report["records"]), sizes=((390, False),))
        self.assertIn(f"Offer 2: trainwatt validate notes: {said}.", self.browser.evaluate("document.querySelector('.caveats').textContent"))

    def test_empty_and_unfinished(self):
        report = load("good.json")
        records = report["records"]
        report["records"] = []
        self.look(self.make(report), 0, sizes=((1280, False),))
        page = self.folder / "unfinished.html"
        lines = self.folder / "records.jsonl"
        lines.write_text("".join(json.dumps(record) + "\n" for record in records))
        done = subprocess.run([TOOL, "html", str(lines), "-o", str(page)], capture_output=True, text=True, timeout=HANG)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.look(page, len(records), sizes=((390, True),))
        self.assertIn("without its report", self.browser.evaluate("document.querySelector('.caveats').textContent"))


if __name__ == "__main__":
    unittest.main()
