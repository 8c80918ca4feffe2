'use strict';
(() => {
  const root = document.documentElement;
  root.classList.add('js');

  // Tables: a click on a column head sorts by it, a second click reverses the order.
  const value = (cell) => {
    if (!cell) return null;
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    const text = cell.textContent.trim();
    return text === '-' || text === '' ? null : text;
  };
  const compare = (a, b) => {
    if (typeof a === 'number' && typeof b === 'number') return a - b;
    if (typeof a === 'number') return -1;
    if (typeof b === 'number') return 1;
    return a.localeCompare(b, 'en', {numeric: true});
  };
  for (const table of document.querySelectorAll('table.sortable')) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, n) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener('click', () => {
        const down = head.getAttribute('aria-sort') === 'ascending';
        for (const h of heads) h.removeAttribute('aria-sort');
        head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
        const rows = [...table.tBodies[0].rows].map((row) => [value(row.cells[n]), row]);
        // Rows without a value stay at the bottom in both orders.
        rows.sort(([a], [b]) => {
          if (a === null || b === null) return (a === null) - (b === null);
          return down ? compare(b, a) : compare(a, b);
        });
        table.tBodies[0].append(...rows.map(([, row]) => row));
      });
    });
  }

  // Light or dark: follows the system until the reader chooses.
  const theme = document.getElementById('theme');
  const dark = () => root.dataset.theme
    ? root.dataset.theme === 'dark'
    : matchMedia('(prefers-color-scheme: dark)').matches;
  const name = () => { theme.textContent = dark() ? 'Light' : 'Dark'; };
  theme.hidden = false;
  theme.addEventListener('click', () => {
    root.dataset.theme = dark() ? 'light' : 'dark';
    name();
  });
  name();

  // Records: a button saves one from the page to a file.
  const kept = document.getElementById('kiln-records');
  // A seed has more digits than a JavaScript number can hold. Browsers with JSON.rawJSON keep the original digits.
  const exact = (key, v, context) => JSON.rawJSON && context && typeof v === 'number' && !Number.isSafeInteger(v)
    ? JSON.rawJSON(context.source) : v;
  const sides = kept ? JSON.parse(kept.textContent, exact).sides : [];
  for (const button of document.querySelectorAll('button.save')) {
    const side = sides[Number(button.dataset.side)];
    const record = side && side.records[Number(button.dataset.record)];
    if (!record) continue;
    button.hidden = false;
    button.addEventListener('click', () => {
      const text = JSON.stringify(record, null, 2) + '\n';
      const link = document.createElement('a');
      link.href = URL.createObjectURL(new Blob([text], {type: 'application/json'}));
      link.download = String(record.command).replace(/[^\w-]/g, '_') + '.json';
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }

  // Paper cannot be clicked: open everything before printing.
  const shut = [];
  addEventListener('beforeprint', () => {
    for (const d of document.querySelectorAll('details:not([open])')) {
      d.open = true;
      shut.push(d);
    }
  });
  addEventListener('afterprint', () => {
    for (const d of shut.splice(0)) d.open = false;
  });
})();
