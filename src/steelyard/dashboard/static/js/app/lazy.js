// A page whose script is loaded when it is shown for the first time.
import { html, useEffect, useState } from "./html.js";
import { Loading, Problem } from "../components/status.js";

export function lazy(load, name) {
  let page = null;
  return function Lazy(given) {
    const [error, setError] = useState(null);
    const [, show] = useState(0);
    useEffect(() => {
      if (page) return undefined;
      let gone = false;
      load().then(
        (module) => { page = module[name]; if (!gone) show(1); },
        (thrown) => { if (!gone) setError(thrown); },
      );
      return () => { gone = true; };
    }, []);
    if (error) return html`<${Problem} error=${error} again=${() => location.reload()} />`;
    return page ? html`<${page} ...${given} />` : html`<${Loading} />`;
  };
}
