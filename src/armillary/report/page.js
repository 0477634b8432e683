/* Draws every figure of the page from the data embedded in it; asks nothing of any network. */
(function () {
  "use strict";
  var figures = JSON.parse(document.getElementById("figure-data").textContent);
  var SERIF = 'Charter, "Bitstream Charter", "Sitka Text", Cambria, "Liberation Serif", Georgia, serif';
  var SYMBOL = {circle: "circle", square: "square", diamond: "diamond", "triangle-up": "triangle-up",
    "triangle-down": "triangle-down", cross: "cross", x: "x", star: "star"};
  var DASH = {solid: "solid", dash: "7px,4px", dot: "2px,3px", dashdot: "8px,3px,2px,3px", longdash: "12px,4px",
    longdashdot: "13px,3px,2px,3px"};

  /* What the page looks like now: its colors come from the style sheet, which knows light, dark and print. */
  var look = {};
  function looked() {
    var style = getComputedStyle(document.documentElement);
    ["ink", "soft", "grid", "edge", "rule", "veil", "card"].forEach(function (name) { look[name] = style.getPropertyValue("--" + name).trim(); });
    look.dark = style.getPropertyValue("--dark").trim() === "1";
  }

  /* A color of a drawing on the page's paper: ink and dark grays turn with the paper, hues only lighten a little. */
  function tinted(color) {
    if (!look.dark) { return color; }
    var n = parseInt(color.slice(1), 16), part = [n >> 16, (n >> 8) & 255, n & 255];
    var gray = Math.max.apply(null, part) - Math.min.apply(null, part) < 24;
    return "#" + part.map(function (v) {
      var turned = Math.round(gray ? 245 - v * 0.75 : v + (255 - v) * 0.25);
      return ("0" + turned.toString(16)).slice(-2);
    }).join("");
  }

  function escaped(text) {
    return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }

  function faded(color, alpha) {
    var n = parseInt(color.slice(1), 16);
    return "rgba(" + (n >> 16) + "," + ((n >> 8) & 255) + "," + (n & 255) + "," + alpha + ")";
  }

  function finite(v) { return typeof v === "number" && isFinite(v); }

  /* A band as closed outlines, one for each stretch without gaps; on a logarithmic axis cut below `floor`. */
  function outline(curve, floor) {
    var x = [], y = [], run = [];
    function close() {
      if (run.length > 1) {
        if (x.length) { x.push(null); y.push(null); }
        run.forEach(function (i) { x.push(curve.x[i]); y.push(curve.high[i]); });
        run.slice().reverse().forEach(function (i) { x.push(curve.x[i]); y.push(floor > 0 ? Math.max(curve.low[i], floor) : curve.low[i]); });
      }
      run = [];
    }
    curve.x.forEach(function (_, i) { if (finite(curve.low[i]) && finite(curve.high[i])) { run.push(i); } else { close(); } });
    close();
    return {x: x, y: y};
  }

  function traces(panel, suffix) {
    var out = [], xs = [], ys = [];
    panel.curves.forEach(function (own) {
      var c = Object.assign({}, own, {color: tinted(own.color)});
      var base = {name: escaped(c.name), xaxis: "x" + suffix, yaxis: "y" + suffix, type: "scatter", showlegend: false, meta: c.name};
      var withEnds = c.low && c.low.some(finite);
      xs = xs.concat(c.x.filter(finite)); ys = ys.concat(c.y.filter(finite));
      if (c.shape === "dots") {
        out.push(Object.assign({}, base, {x: c.x, y: c.y.map(escaped), mode: "markers",
          marker: {color: c.color, symbol: SYMBOL[c.marker] || "circle", size: 9},
          error_x: withEnds ? {type: "data", symmetric: false, array: [c.high[0] - c.x[0]], arrayminus: [c.x[0] - c.low[0]],
            color: c.color, thickness: 1.6, width: 4} : {},
          customdata: [[c.low ? c.low[0] : null, c.high ? c.high[0] : null]],
          hovertemplate: "%{x:.4g} [%{customdata[0]:.4g}, %{customdata[1]:.4g}]<extra></extra>"}));
        return;
      }
      if (c.shape === "points") {
        out.push(Object.assign({}, base, {x: c.x, y: c.y, mode: "markers", marker: {color: c.color, size: 7, symbol: SYMBOL[c.marker] || "circle",
          line: {color: look.card, width: 0.4}}, hovertemplate: "%{x:.4g}, %{y:.4g}"}));
        return;
      }
      if (c.shape === "mark") {
        out.push(Object.assign({}, base, {x: c.x, y: c.y, mode: "markers", marker: {color: c.color, size: 8,
          symbol: (SYMBOL[c.marker] || "circle") + "-open", line: {width: 1.4}}, hovertemplate: escaped(c.name) + ": %{y:.4g}"}));
        return;
      }
      if (withEnds) {
        var o = outline(c, panel.y.scale === "log" && panel.y.limits ? panel.y.limits[0] / 10 : 0);
        out.push(Object.assign({}, base, {x: o.x, y: o.y, mode: "lines", fill: "toself", fillcolor: faded(c.color, 0.15),
          line: {width: 0}, hoverinfo: "skip"}));
      }
      var step = c.shape === "steps";
      out.push(Object.assign({}, base, {x: c.x, y: c.y, mode: step || c.marker === "none" ? "lines" : "lines+markers",
        line: {color: c.color, width: c.width, dash: DASH[c.dash], shape: step ? "hvh" : "linear"},
        fill: step ? "tozeroy" : "none", fillcolor: faded(c.color, 0.05), connectgaps: false,
        marker: {color: c.color, symbol: SYMBOL[c.marker] || "circle", size: 6, maxdisplayed: 7, line: {color: look.card, width: 0.6}},
        customdata: withEnds ? c.low.map(function (l, i) { return [l, c.high[i]]; }) : undefined,
        hovertemplate: withEnds ? "%{y:.4g} [%{customdata[0]:.4g}, %{customdata[1]:.4g}]" : "%{y:.4g}"}));
    });
    if (panel.tiles) {
      out.push({type: "heatmap", xaxis: "x" + suffix, yaxis: "y" + suffix, x: panel.tiles.x, y: panel.tiles.y, z: panel.tiles.values,
        zmin: panel.tiles.limits[0], zmax: panel.tiles.limits[1], colorscale: "Cividis", xgap: panel.tiles.x.length > 40 ? 0 : 1, ygap: panel.tiles.y.length > 40 ? 0 : 1, hoverongaps: false,
        hovertemplate: escaped(panel.x.label) + " %{x}, " + escaped(panel.y.label) + " %{y}: %{z:.3g}<extra></extra>",
        colorbar: Object.assign({thickness: 9, outlinewidth: 0, tickfont: {size: 10.5}, nticks: 4}, panel.bar)});
    }
    panel.rules.forEach(function (r) {
      var span = r.y !== null ? (panel.x.limits || [Math.min.apply(null, xs), Math.max.apply(null, xs)])
        : (panel.y.limits || [Math.min.apply(null, ys), Math.max.apply(null, ys)]);
      if (r.y !== null && span[0] === span[1]) { span = [span[0] - 0.5, span[1] + 0.5]; }
      out.push({type: "scatter", xaxis: "x" + suffix, yaxis: "y" + suffix, mode: r.y === null ? "lines+text" : "lines", showlegend: false, hoverinfo: "skip",
        x: r.y !== null ? span : [r.x, r.x], y: r.y !== null ? [r.y, r.y] : span, text: ["", escaped(r.name)],
        textposition: r.x !== null && r.x < (Math.min.apply(null, xs) + Math.max.apply(null, xs)) / 2 ? "bottom right" : "bottom left", cliponaxis: true,
        textfont: {size: 10.5, color: look.soft}, line: {color: look.rule, width: 1, dash: "2px,2px"}});
    });
    return out;
  }

  /* Ticks of a logarithmic axis: 1, 2, 5 within two decades, otherwise powers of ten, thinned. */
  function logTicks(extent) {
    var low = Math.log10(extent[0]), high = Math.log10(extent[1]), span = high - low, out = [], e, m;
    var steps = span < 0.7 ? [1, 1.5, 2, 3, 4, 5, 6, 8] : span < 2.2 ? [1, 2, 5] : [1], every = Math.max(1, Math.ceil(span / 6));
    if (!(span >= 0)) { return [1]; }
    for (e = Math.floor(low) - 1; e <= Math.ceil(high); e += 1) {
      for (m = 0; m < steps.length; m += 1) { if (steps.length > 1 || e % every === 0) { out.push(+(steps[m] + "e" + e)); } }
    }
    return out;
  }

  function plain(v) {
    if (v >= 0.001 && v < 1e5) { return String(v); }
    var power = Math.floor(Math.log10(v) + 1e-9), first = Math.round(v / Math.pow(10, power));
    return (first === 1 ? "" : first + "·") + "10<sup>" + String(power).replace("-", "\u2212") + "</sup>";
  }

  /* Smallest and largest positive value that a panel draws along one of its axes. */
  function extent(panel, which) {
    var all = [];
    panel.curves.forEach(function (c) {
      all = all.concat(c[which]);
      if (c.low && (which === "y") === (c.shape !== "dots")) { all = all.concat(c.low, c.high); }
    });
    panel.rules.forEach(function (r) { all.push(r[which]); });
    all = all.filter(function (v) { return finite(v) && v > 0; });
    return all.length ? [Math.min.apply(null, all), Math.max.apply(null, all)] : [1, 10];
  }

  function axis(a, anchor, domain, extent) {
    var result = {anchor: anchor, domain: domain, title: {text: escaped(a.label), standoff: 8, font: {size: 12.5}}, zeroline: false,
      gridcolor: look.grid, linecolor: look.edge, ticks: "outside", ticklen: 4, tickcolor: look.edge, tickfont: {size: 11.5},
      automargin: a.scale !== "names", fixedrange: a.scale === "names"};
    if (a.scale === "log") {
      var ticks = logTicks(a.limits || extent);
      result.type = "log"; result.tickmode = "array"; result.tickvals = ticks; result.ticktext = ticks.map(plain);
    }
    if (a.scale === "names") { result.type = "category"; result.autorange = "reversed"; result.ticks = ""; result.showgrid = false; }
    if (a.at) { result.tickmode = "array"; result.tickvals = a.at; result.ticktext = a.text.map(function (lines) { return lines.map(escaped).join("<br>"); }); }
    if (a.upright) { result.tickangle = -90; }
    if (a.limits) { result.range = a.scale === "log" ? a.limits.map(Math.log10) : a.limits; }
    return result;
  }

  function plot(spec, panels, width) {
    var columns = Math.max(1, Math.min(panels.length, width < 520 ? 1 : width < 760 ? Math.min(2, spec.columns) : spec.columns));
    var rows = Math.ceil(panels.length / columns);
    var names = 0;
    panels.forEach(function (p) { if (p.y.scale === "names") { p.curves.forEach(function (c) { names = Math.max(names, String(c.y[0]).length); }); } });
    var colored = panels.some(function (p) { return p.tiles; }), right = colored ? 58 : 10;
    var margin = names ? 18 + 6.1 * names : 62, inside = width - margin - right;
    var gap = columns > 1 ? (names ? margin + 14 : colored ? 104 : 70) / inside : 0, cell = (1 - gap * (columns - 1)) / columns;
    var panelHeight = Math.max(columns > 1 || width < 520 ? 190 : 150, Math.min(330 * Math.max(1, spec.height), cell * inside * spec.height * (columns === 1 && width > 520 ? 0.8 : 1)));
    var rowGap = 96, height = 46 + rows * panelHeight + (rows - 1) * rowGap + 58, inner = height - 104;
    var data = [], layout = {width: width, height: height, margin: {l: margin, r: right, t: 46, b: 58}, font: {family: SERIF, size: 13, color: look.ink},
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "x unified", showlegend: false, annotations: [],
      hoverlabel: {font: {family: SERIF, size: 12}, bgcolor: look.card, bordercolor: look.edge}, dragmode: "zoom"};
    panels.forEach(function (panel, i) {
      var suffix = i === 0 ? "" : String(i + 1), column = i % columns, row = Math.floor(i / columns);
      var left = column * (cell + gap), top = 1 - row * (panelHeight + rowGap) / inner;
      if (panel.tiles) {
        layout.hovermode = "closest";
        panel.bar = {x: Math.min(1, left + cell) + 4 / inside, xanchor: "left", y: top - panelHeight / inner / 2, yanchor: "middle", lenmode: "pixels", len: panelHeight};
      }
      data = data.concat(traces(panel, suffix));
      layout["xaxis" + suffix] = axis(panel.x, "y" + suffix, [left, Math.min(1, left + cell)], extent(panel, "x"));
      layout["yaxis" + suffix] = axis(panel.y, "x" + suffix, [Math.max(0, top - panelHeight / inner), top], extent(panel, "y"));
      if (panel.y.scale === "names") { layout.hovermode = "closest"; }
      panel.rules.forEach(function (r) {
        if (r.y === null) { return; }
        layout.annotations.push({text: escaped(r.name), xref: "x" + suffix + " domain", x: r.end === "right" ? 1 : 0, xanchor: r.end,
          yref: "y" + suffix, y: panel.y.scale === "log" ? Math.log10(r.y) : r.y, yanchor: r.above ? "bottom" : "top", showarrow: false,
          font: {size: 10.5, color: look.soft}, bgcolor: look.veil, borderpad: 0});
      });
      layout.annotations.push({text: [panel.title ? "<b>" + escaped(panel.title) + "</b>" : "", escaped(panel.note)].filter(Boolean).join("<br>"), xref: "x" + suffix + " domain", yref: "y" + suffix + " domain", x: 0, y: 1,
        xanchor: "left", yanchor: "bottom", yshift: 5, showarrow: false, font: {size: 12.5, color: look.ink}, align: "left"});
    });
    return {data: data, layout: layout};
  }

  function swatch(own) {
    var c = Object.assign({}, own, {color: tinted(own.color)});
    var shapes = {circle: '<circle cx="18" cy="7" r="3.4"/>', square: '<rect x="14.8" y="3.8" width="6.4" height="6.4"/>',
      diamond: '<path d="M18 2.6 22.4 7 18 11.4 13.6 7Z"/>', "triangle-up": '<path d="M18 2.6 22.2 10.4H13.8Z"/>',
      "triangle-down": '<path d="M18 11.4 13.8 3.6H22.2Z"/>', cross: '<path d="M16.4 3h3.2v2.4H22v3.2h-2.4V11h-3.2V8.6H14V5.4h2.4Z"/>',
      x: '<path d="m14.6 5 1.6-1.6L18 5.2l1.8-1.8L21.4 5 19.6 7l1.8 1.8-1.6 1.6L18 8.6l-1.8 1.8L14.6 8.8 16.4 7Z"/>',
      star: '<path d="m18 2.2 1.3 3.2 3.4.2-2.6 2.2.9 3.4L18 9.4l-3 1.8.9-3.4-2.6-2.2 3.4-.2Z"/>', none: ""};
    return '<svg width="36" height="14" viewBox="0 0 36 14" aria-hidden="true"><line x1="1" x2="35" y1="7" y2="7" stroke="' + c.color +
      '" stroke-width="' + c.width + '" stroke-dasharray="' + (c.dash === "solid" ? "none" : DASH[c.dash].replace(/px/g, "")) +
      '"/><g fill="' + c.color + '" stroke="' + look.card + '" stroke-width=".5">' + (shapes[c.marker] || "") + "</g></svg>";
  }

  function Figure(name, node) {
    this.spec = figures[name]; this.node = node; this.hidden = {}; this.swatches = []; this.items = [];
    this.plot = node.querySelector(".plot"); this.choice = this.spec.controls.map(function (c) { return c.start; });
    this.controls(); this.legend(); this.draw();
  }

  Figure.prototype.panels = function () { return this.spec.views[this.choice.join("|")] || []; };

  Figure.prototype.controls = function () {
    var box = this.node.querySelector(".controls"), self = this;
    this.spec.controls.forEach(function (control, place) {
      var row = document.createElement("div"), name = document.createElement("span");
      row.className = "control"; name.className = "control-name"; name.textContent = control.name; row.appendChild(name);
      if (control.kind === "slider") {
        var range = document.createElement("input"), shown = document.createElement("output");
        range.type = "range"; range.min = 0; range.max = control.options.length - 1; range.step = 1;
        range.value = control.options.indexOf(control.start); range.setAttribute("aria-label", control.name);
        shown.textContent = control.start; range.setAttribute("aria-valuetext", control.start);
        range.addEventListener("input", function () {
          self.choice[place] = control.options[+range.value]; shown.textContent = self.choice[place];
          range.setAttribute("aria-valuetext", self.choice[place]); self.draw();
        });
        if (control.options.length > 1) { row.appendChild(range); }
        row.appendChild(shown);
      } else {
        var group = document.createElement("span"); group.className = "choices"; group.setAttribute("role", "group");
        group.setAttribute("aria-label", control.name);
        control.options.forEach(function (option) {
          var button = document.createElement("button"); button.type = "button"; button.textContent = option;
          button.setAttribute("aria-pressed", String(option === control.start));
          button.addEventListener("click", function () {
            self.choice[place] = option;
            group.querySelectorAll("button").forEach(function (b) { b.setAttribute("aria-pressed", String(b === button)); });
            self.draw();
          });
          group.appendChild(button);
        });
        row.appendChild(group);
      }
      box.appendChild(row);
    });
  };

  Figure.prototype.legend = function () {
    var box = this.node.querySelector(".legend"), seen = {}, self = this, names = 0;
    Object.keys(this.spec.views).forEach(function (key) {
      self.spec.views[key].forEach(function (panel) {
        panel.curves.forEach(function (c) {
          if (seen[c.name] || c.shape === "dots" || c.shape === "mark") { return; }
          seen[c.name] = true; names += 1;
          var item = document.createElement("button"), label = document.createElement("span");
          var drawn = document.createElement("span");
          drawn.className = "swatch"; self.swatches.push({node: drawn, curve: c});
          item.type = "button"; item.appendChild(drawn); label.textContent = c.name; item.appendChild(label);
          self.items.push({node: item, name: c.name});
          item.setAttribute("aria-pressed", "true"); item.title = "show or hide";
          item.addEventListener("click", function () {
            self.hidden[c.name] = !self.hidden[c.name];
            item.setAttribute("aria-pressed", String(!self.hidden[c.name])); self.draw();
          });
          box.appendChild(item);
        });
      });
    });
    if (!names) { box.remove(); }
  };

  Figure.prototype.draw = function (width) {
    this.recolor();
    var now = this.curves();  // a legend names what is drawn now
    this.items.forEach(function (one) { one.node.style.display = now[one.name] ? "" : "none"; });
    var hidden = this.hidden, drawn = plot(this.spec, this.panels(), width || this.plot.clientWidth || 900);
    drawn.data.forEach(function (t) { if (hidden[t.meta]) { t.visible = false; } });
    Plotly.react(this.plot, drawn.data, drawn.layout, {displaylogo: false, displayModeBar: false, doubleClick: "reset", plotlyServerURL: ""});
  };

  /* Swatches of the legend in the colors of the page as it is now. */
  Figure.prototype.recolor = function () {
    var now = this.curves();
    this.swatches.forEach(function (one) { one.node.innerHTML = swatch(now[one.curve.name] || one.curve); });
  };

  /* The curves of the view that is chosen, by name. */
  Figure.prototype.curves = function () {
    var found = {};
    this.panels().forEach(function (panel) { panel.curves.forEach(function (c) { found[c.name] = c; }); });
    return found;
  };

  looked();
  var all = Array.prototype.map.call(document.querySelectorAll("figure[data-figure]"), function (node) {
    var name = node.getAttribute("data-figure"), played = figures[name].playback;
    return played ? new Playback(played, node, {look: look, tinted: tinted}) : new Figure(name, node);
  });
  var waiting = 0;
  window.addEventListener("resize", function () {
    window.clearTimeout(waiting); waiting = window.setTimeout(function () { all.forEach(function (f) { f.draw(); }); }, 120);
  });
  function again(width) { looked(); all.forEach(function (f) { f.draw(width); }); }
  window.addEventListener("beforeprint", function () { document.documentElement.classList.add("printed"); again(660); });
  window.addEventListener("afterprint", function () { document.documentElement.classList.remove("printed"); again(); });
  if (window.matchMedia) { window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () { again(); }); }

  var links = {}, current = null;
  document.querySelectorAll("nav.contents a").forEach(function (a) { links[a.getAttribute("href").slice(1)] = a; });
  if (window.IntersectionObserver) {
    var watch = new IntersectionObserver(function (entries) {
      entries.forEach(function (e) {
        if (e.isIntersecting && links[e.target.id]) {
          if (current) { current.removeAttribute("aria-current"); }
          current = links[e.target.id]; current.setAttribute("aria-current", "true");
        }
      });
    }, {rootMargin: "-10% 0px -80% 0px"});
    document.querySelectorAll("section[id]").forEach(function (s) { watch.observe(s); });
  }
  document.documentElement.setAttribute("data-drawn", String(all.length));
})();
