/** Stored text can carry escape sequences; shown as \u001b they move no cursor and hide nothing. */
export declare function visible(text: string): string;
/** On one line: runs of white space become a blank each. */
export declare function oneLine(text: string): string;
export declare function widthOf(text: string): number;
/** Cut with an ellipsis where it is too long. */
export declare function cutTo(text: string, width: number): string;
export declare function padEnd(text: string, width: number): string;
export declare function padStart(text: string, width: number): string;
/** Broken at blanks. A word longer than a line is left whole: a key or a command must stay copyable. */
export declare function wrap(text: string, width: number): string[];
