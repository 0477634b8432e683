/* Tokens on the sphere, turned by hand and played through time, on a canvas of its own; asks nothing of any network. */
var Playback = (function () {
  "use strict";
  var SIZE = 470, SPEED = 90, REACH = 1.12;

  /* spec: times, points (time, token, axis), colors, names, name, further starts of the same kind; theme: the page's
     colors and how it tints a color. */
  function Playback(spec, node, theme) {
    this.spec = spec; this.node = node; this.theme = theme; this.turn = 35; this.tilt = 25;
    this.last = spec.times.length - 1; this.place = 0; this.playing = 0;
    this.box = node.querySelector(".plot"); this.canvas = document.createElement("canvas"); this.canvas.className = "sphere"; this.canvas.tabIndex = 0;
    this.canvas.setAttribute("aria-label", "sphere; arrow keys turn it");
    this.box.appendChild(this.canvas);
    this.controls(); this.hands(); this.legend(); this.draw();
  }

  Playback.prototype.controls = function () {
    var self = this, box = this.node.querySelector(".controls"), row = document.createElement("div"), name = document.createElement("span");
    var range = document.createElement("input"), shown = document.createElement("output"), button = document.createElement("button"), choices = document.createElement("span");
    row.className = "control"; name.className = "control-name"; name.textContent = "time"; choices.className = "choices";
    range.type = "range"; range.min = 0; range.max = this.last; range.step = 1; range.setAttribute("aria-label", "time");
    button.type = "button"; button.textContent = "play"; button.setAttribute("aria-pressed", "false");
    this.range = range; this.shown = shown; this.button = button;
    range.addEventListener("input", function () { self.stop(); self.at(+range.value); });
    button.addEventListener("click", function () { if (self.playing) { self.stop(); } else { self.play(); } });
    choices.appendChild(button); row.appendChild(name);
    if (this.last > 0) { row.appendChild(range); }
    row.appendChild(shown);
    if (this.last > 0) { row.appendChild(choices); }
    box.appendChild(row);
    if (this.spec.further.length) { this.starts(box); }
  };

  /* One button a start; the sphere stays turned as it is, and time stands still. */
  Playback.prototype.starts = function (box) {
    var self = this, row = document.createElement("div"), name = document.createElement("span"), choices = document.createElement("span");
    var every = [this.spec].concat(this.spec.further), buttons = [];
    row.className = "control"; name.className = "control-name"; name.textContent = "start"; choices.className = "choices";
    every.forEach(function (one, place) {
      var button = document.createElement("button");
      button.type = "button"; button.textContent = one.name; button.setAttribute("aria-pressed", place ? "false" : "true");
      button.addEventListener("click", function () {
        self.stop(); self.spec = one; self.legend(); self.draw();
        buttons.forEach(function (other) { other.setAttribute("aria-pressed", other === button ? "true" : "false"); });
      });
      buttons.push(button); choices.appendChild(button);
    });
    row.appendChild(name); row.appendChild(choices); box.appendChild(row);
  };

  Playback.prototype.at = function (place) { this.place = place; this.draw(); };

  Playback.prototype.play = function () {
    var self = this;
    if (this.place >= this.last) { this.at(0); }
    this.button.textContent = "pause"; this.button.setAttribute("aria-pressed", "true");
    this.playing = window.setInterval(function () {
      if (self.place >= self.last) { self.stop(); } else { self.at(self.place + 1); }
    }, SPEED);
  };

  Playback.prototype.stop = function () {
    window.clearInterval(this.playing); this.playing = 0;
    this.button.textContent = "play"; this.button.setAttribute("aria-pressed", "false");
  };

  Playback.prototype.hands = function () {
    var self = this, held = null;
    function turned(dx, dy) { self.turn -= dx; self.tilt = Math.max(-89, Math.min(89, self.tilt + dy)); self.draw(); }
    this.canvas.addEventListener("pointerdown", function (e) {
      held = [e.clientX, e.clientY];
      try { self.canvas.setPointerCapture(e.pointerId); } catch (gone) { /* the pointer has left already */ }
    });
    this.canvas.addEventListener("pointermove", function (e) {
      if (held) { turned((e.clientX - held[0]) * 0.45, (e.clientY - held[1]) * 0.45); held = [e.clientX, e.clientY]; }
    });
    ["pointerup", "pointercancel"].forEach(function (kind) { self.canvas.addEventListener(kind, function () { held = null; }); });
    this.canvas.addEventListener("keydown", function (e) {
      var step = {ArrowLeft: [-6, 0], ArrowRight: [6, 0], ArrowUp: [0, -6], ArrowDown: [0, 6]}[e.key];
      if (step) { e.preventDefault(); turned(step[0], step[1]); }
    });
  };

  Playback.prototype.legend = function () {
    var box = this.node.querySelector(".legend"), self = this;
    this.swatches = []; box.textContent = "";
    this.spec.names.forEach(function (pair) {
      var item = document.createElement("span"), dot = document.createElement("span"), words = document.createElement("span");
      item.className = "named"; dot.className = "dot"; words.textContent = pair[1];
      item.appendChild(dot); item.appendChild(words); box.appendChild(item); self.swatches.push([dot, pair[0]]);
    });
  };

  /* Rows of the camera: right, up, toward the eye. */
  Playback.prototype.camera = function () {
    var a = this.turn * Math.PI / 180, b = this.tilt * Math.PI / 180, ca = Math.cos(a), sa = Math.sin(a), cb = Math.cos(b), sb = Math.sin(b);
    return [[-sa, ca, 0], [-sb * ca, -sb * sa, cb], [cb * ca, cb * sa, sb]];
  };

  function seen(camera, p) {
    return camera.map(function (row) { return row[0] * p[0] + row[1] * p[1] + row[2] * p[2]; });
  }

  Playback.prototype.draw = function (width) {
    var look = this.theme.look, tinted = this.theme.tinted, spec = this.spec, camera = this.camera();
    var size = Math.max(160, Math.min(SIZE, width || this.box.clientWidth || SIZE)), dense = window.devicePixelRatio || 1, pen = this.canvas.getContext("2d");
    this.canvas.width = Math.round(size * dense); this.canvas.height = Math.round(size * dense);
    this.canvas.style.width = size + "px"; this.canvas.style.height = size + "px";
    pen.setTransform(dense, 0, 0, dense, 0, 0); pen.clearRect(0, 0, size, size);
    var middle = size / 2, scale = middle / REACH;
    function path(points, part) {
      var open = false;
      pen.beginPath();
      points.forEach(function (p) {
        if (part * p[2] < -1e-9) { open = false; return; }
        pen[open ? "lineTo" : "moveTo"](middle + scale * p[0], middle - scale * p[1]); open = true;
      });
      pen.stroke();
    }
    var circles = [0, 1, 2].map(function (axis) {
      var points = [], k, p;
      for (k = 0; k <= 96; k += 1) {
        p = [0, 0, 0]; p[(axis + 1) % 3] = Math.cos(k * Math.PI / 48); p[(axis + 2) % 3] = Math.sin(k * Math.PI / 48);
        points.push(seen(camera, p));
      }
      return points;
    });
    pen.lineWidth = 1; pen.strokeStyle = look.rule;
    pen.globalAlpha = 0.22; circles.forEach(function (c) { path(c, -1); });
    pen.globalAlpha = 0.55; circles.forEach(function (c) { path(c, 1); });
    pen.globalAlpha = 1; pen.strokeStyle = look.edge; pen.beginPath(); pen.arc(middle, middle, scale, 0, 2 * Math.PI); pen.stroke();
    var tokens = spec.points[this.place].map(function (p, i) { return [seen(camera, p), spec.colors[i]]; });
    tokens.sort(function (a, b) { return a[0][2] - b[0][2]; });
    tokens.forEach(function (one) {
      var p = one[0];
      pen.globalAlpha = p[2] < 0 ? 0.28 : 0.95; pen.fillStyle = tinted(one[1]); pen.strokeStyle = look.card; pen.lineWidth = 0.8;
      pen.beginPath(); pen.arc(middle + scale * p[0], middle - scale * p[1], 4.4 + 1.3 * p[2], 0, 2 * Math.PI); pen.fill(); pen.stroke();
    });
    pen.globalAlpha = 1;
    this.range.value = this.place; this.shown.textContent = spec.times[this.place]; this.range.setAttribute("aria-valuetext", spec.times[this.place]);
    this.swatches.forEach(function (pair) { pair[0].style.background = tinted(pair[1]); });
    this.canvas.setAttribute("data-shown", spec.times[this.place]);
  };

  return Playback;
})();
