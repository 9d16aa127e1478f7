// What people do in the console, a part at a time: `node tour.mjs PART`. The end-to-end suite runs each as a test of its own
// (tests/tests/e2e/console.rs).

import * as access from './tour/access.mjs';
import * as editing from './tour/editing.mjs';
import * as keyboard from './tour/keyboard.mjs';
import * as managing from './tour/managing.mjs';
import * as visiting from './tour/visiting.mjs';

const parts = { ...access, ...editing, ...keyboard, ...managing, ...visiting };
const [, , name] = process.argv;
if (!parts[name]) throw new Error(`no part ${name}: there are ${Object.keys(parts).join(', ')}`);
await parts[name]();
console.log(`${name}: as it should be`);
