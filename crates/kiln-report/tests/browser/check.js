'use strict';
// Runs in a page that loads each page under test in a frame, and writes the faults that it finds into the document.

// Minimum font size in pixels.
const LEAST = 9;
// Minimum contrast (WCAG 2.2, 1.4.3).
const CONTRAST = 4.5;

const colour = (text) => {
  const n = (text.match(/[\d.]+/g) || []).map(Number);
  return n.length < 3 ? null : [n[0], n[1], n[2], n.length > 3 ? n[3] : 1];
};
const over = (front, back, alpha) => front.slice(0, 3).map((c, i) => c * alpha + back[i] * (1 - alpha));
const luminance = (rgb) => {
  const [r, g, b] = rgb.map((c) => {
    const s = c / 255;
    return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => {
  const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
  return (x + 0.05) / (y + 0.05);
};

const pictures = (view, faults) => {
  const doc = view.document;
  const page = colour(view.getComputedStyle(doc.body).backgroundColor);
  const titles = [];
  for (const svg of doc.querySelectorAll('svg')) {
    const title = svg.querySelector('title').textContent;
    const say = (what) => faults.push(`${title}: ${what}`);
    titles.push(title);
    if (!svg.querySelector('desc').textContent) say('nothing for who cannot see it');
    const frame = svg.getBoundingClientRect();
    const scale = frame.width / svg.viewBox.baseVal.width;
    if (!(frame.width > 100)) say(`not drawn: ${frame.width} wide`);
    const rects = [...svg.querySelectorAll('rect')];
    const boxes = [...svg.querySelectorAll('text')].map((text) => {
      const box = text.getBoundingClientRect();
      const style = view.getComputedStyle(text);
      const said = (text.firstChild && text.firstChild.textContent) || '';
      const size = parseFloat(style.fontSize) * scale;
      if (said.trim() && !(box.width > 1)) say(`'${said}' has no letters: is there a font?`);
      if (size < LEAST) say(`'${said}' is ${size.toFixed(1)} px`);
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 2)
        say(`'${said}' leaves the picture`);
      // The background behind it, combined from the page up.
      const [x, y] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
      let back = page.slice(0, 3);
      for (const rect of rects) {
        const r = rect.getBoundingClientRect();
        const fill = colour(view.getComputedStyle(rect).fill);
        if (fill && rect.compareDocumentPosition(text) & 4 && r.left <= x && x <= r.right && r.top <= y && y <= r.bottom)
          back = over(fill, back, parseFloat(view.getComputedStyle(rect).fillOpacity));
      }
      const found = contrast(colour(style.fill).slice(0, 3), back);
      if (found < CONTRAST) say(`'${said}' has a contrast of ${found.toFixed(1)}`);
      return {said, box};
    });
    // Text boxes have empty space above and below the letters.
    const air = 2;
    boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => {
      const [p, q] = [a.box, b.box];
      if (p.left < q.right - 1 && q.left < p.right - 1 && p.top + air < q.bottom - air && q.top + air < p.bottom - air)
        say(`'${a.said}' and '${b.said}' overlap`);
    }));
  }
  return titles;
};

const sorting = (doc, faults) => {
  const figures = (table, n) => [...table.tBodies[0].rows]
    .map((r) => r.cells[n].dataset.v).filter((v) => v !== undefined).map(Number);
  const ordered = (v, sign) => v.every((x, i) => i === 0 || sign * (x - v[i - 1]) >= 0);
  let tried = 0;
  for (const table of doc.querySelectorAll('table.sortable')) {
    [...table.tHead.rows[0].cells].forEach((head, n) => {
      if (new Set(figures(table, n)).size < 3) return;
      const button = head.querySelector('button');
      if (!button) return faults.push('a head that cannot be clicked');
      const before = figures(table, n).length;
      button.click();
      if (!ordered(figures(table, n), 1) || head.getAttribute('aria-sort') !== 'ascending') faults.push(`'${head.textContent}' does not sort`);
      button.click();
      if (!ordered(figures(table, n), -1)) faults.push(`'${head.textContent}' does not sort the other way`);
      if (figures(table, n).length !== before) faults.push(`'${head.textContent}' loses rows`);
      tried += 1;
    });
  }
  return tried;
};

// The content and the file name that a click on each button would save.
const saved = (view) => {
  const files = [];
  view.Blob = function (parts) { files.push({text: parts.join('')}); };
  view.URL.createObjectURL = () => 'about:blank';
  view.HTMLAnchorElement.prototype.click = function () { files[files.length - 1].name = this.download; };
  for (const button of view.document.querySelectorAll('button.save:not([hidden])')) button.click();
  return files;
};

addEventListener('load', () => {
  const verdict = [];
  for (const frame of document.querySelectorAll('iframe')) {
    const view = frame.contentWindow;
    const doc = frame.contentDocument;
    const root = doc.documentElement;
    const faults = [];
    for (const d of doc.querySelectorAll('details')) d.open = true;
    const back = () => luminance(colour(view.getComputedStyle(doc.body).backgroundColor));
    const theme = doc.getElementById('theme');
    const was = back();
    theme.click();
    if (Math.abs(back() - was) < 0.5) faults.push('the switch does not switch');
    theme.click();
    if (back() !== was) faults.push('the switch does not switch back');
    if (frame.dataset.dark) theme.click();
    if (back() > 0.2 === !!frame.dataset.dark) faults.push('the wrong colours');
    if (root.scrollWidth > root.clientWidth) faults.push(`${root.scrollWidth} px in a window of ${root.clientWidth}`);
    if (view.getComputedStyle(root).getPropertyValue('--ink') === '') faults.push('no style');
    const requests = view.performance.getEntriesByType('resource').map((e) => e.name);
    if (requests.length) faults.push(`asks for ${requests.join(' ')}`);
    const titles = pictures(view, faults);
    const sorted = frame.dataset.sort ? sorting(doc, faults) : null;
    verdict.push({name: frame.name, titles, sorted, faults: faults.slice(0, 40), saves: saved(view)});
  }
  const pre = document.createElement('pre');
  pre.id = 'verdict';
  pre.textContent = JSON.stringify(verdict);
  document.body.replaceChildren(pre);
});
