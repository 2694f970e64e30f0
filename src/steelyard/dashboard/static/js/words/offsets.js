export default { en: {}, zh: {} };
