// Members as people know them: a short name and a colour each, the same wherever they are shown.

// "10.0.0.7@till-1#4711#17…@sy1" is till-1; a number alone is a process, and says little without its machine.
function shortest(id) {
  const head = id.split("#", 1)[0];
  const own = head.slice(head.indexOf("@") + 1);
  if (head.includes("@") && own && !/^\d+$/.test(own)) return own;
  return head.length > 28 ? `…${head.slice(-26)}` : head;
}

// Short names for ids; who comes later and is called the same gets a number: it may be the same one, started again.
export function namesOf(ids) {
  const names = {}, taken = {};
  for (const id of ids) {
    if (names[id]) continue;
    const name = shortest(id);
    taken[name] = (taken[name] || 0) + 1;
    names[id] = taken[name] === 1 ? name : `${name} (${taken[name]})`;
  }
  return names;
}

// A sentence with short names in the place of ids; the longest first, since one id may begin another.
export function said(sentence, names) {
  let text = sentence;
  for (const id of Object.keys(names).sort((a, b) => b.length - a.length)) {
    if (names[id] !== id) text = text.replaceAll(id, names[id]);
  }
  return text;
}

export const COLOURS = 8;

// Colours from 1 to 8: who joins gets one that nobody has who is there. `sightings` are lists of ids, the oldest first.
export function coloursOf(sightings) {
  const colours = {};
  for (const ids of sightings) {
    for (const id of ids) {
      if (colours[id]) continue;
      const used = Array(COLOURS).fill(0);
      ids.forEach((each) => { if (colours[each]) used[colours[each] - 1] += 1; });
      colours[id] = used.indexOf(Math.min(...used)) + 1;
    }
  }
  return colours;
}
