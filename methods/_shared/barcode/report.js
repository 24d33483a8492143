for (const table of document.querySelectorAll('table')) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0], rows = [...body.rows];
  const value = (row, column) => row.cells[column].dataset.v ?? row.cells[column].textContent;
  heads.forEach((head, column) => {
    const button = document.createElement('button'), numeric = head.classList.contains('num');
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener('click', () => {
      const sign = head.getAttribute('aria-sort') === 'ascending' ? -1 : 1;
      heads.forEach(other => other.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', sign > 0 ? 'ascending' : 'descending');
      const order = (one, other) => {
        const a = value(one, column), b = value(other, column);
        if (a === '' || b === '') return (a === '') - (b === '');
        return sign * (numeric ? a - b : a.localeCompare(b));
      };
      body.append(...rows.slice().sort(order));
    });
  });
}
