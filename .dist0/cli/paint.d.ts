/** Colour where a person looks at a terminal, and nowhere else. */
type Brush = (text: string) => string;
export interface Paint {
    readonly bold: Brush;
    readonly dim: Brush;
    readonly red: Brush;
    readonly green: Brush;
    readonly yellow: Brush;
    readonly cyan: Brush;
}
export declare function choosePaint(isTTY: boolean, env: Readonly<Record<string, string | undefined>>): Paint;
export {};
