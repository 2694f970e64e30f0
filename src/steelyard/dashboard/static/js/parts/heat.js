// Lag as heat: nothing is cool, the most of all is hot. The number is always beside the colour.
export function heatClass(value, most) {
  if (value === null || value === undefined) return "heat-none";
  if (!value) return "heat-0";
  const step = most > 1 ? Math.ceil((Math.log1p(value) / Math.log1p(most)) * 5) : 1;
  return `heat-${Math.min(5, Math.max(1, step))}`;
}
