/** As in package.json. A constant, because a bundled program has no package.json of ours to read. */
export const PACKAGE_VERSION = "0.1.0";
