import { isLightColor } from "@mantine/core";

/** Hues that most people can distinguish, also with colour vision deficiency, on light and on dark backgrounds. None is near
 * red, which means an error. */
const HUES = [211, 32, 160, 318, 265, 50, 188, 72, 95, 295, 236, 130];

function hash(text: string): number {
  let value = 2_166_136_261;
  for (let index = 0; index < text.length; index += 1) {
    value = Math.imul(value ^ text.charCodeAt(index), 16_777_619);
  }
  return value >>> 0;
}

/** Colour of a service: the same on every page, in both themes. */
export function serviceColour(service: string): string {
  const value = hash(service);
  const hue = HUES[value % HUES.length] ?? 0;
  return `light-dark(hsl(${hue} 62% ${38 + ((value >>> 8) % 3) * 4}%), hsl(${hue} 62% ${62 + ((value >>> 8) % 3) * 4}%))`;
}

/** Returns black or white, whichever is easier to read on a colour given as `rgb(…)`. One of them always has a contrast of at
 * least 4.5. */
export function contrastingTextColour(colour: string): "black" | "white" {
  // The luminance at which both have the same contrast.
  return isLightColor(colour, 0.1791) ? "black" : "white";
}
