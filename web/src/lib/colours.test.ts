import { expect, it } from "vitest";
import { contrastingTextColour } from "./colours";

it.each([
  ["rgb(0, 0, 0)", "white"],
  ["rgb(255, 255, 255)", "black"],
  ["rgb(255, 255, 0)", "black"],
  ["rgb(0, 0, 255)", "white"],
  // On both sides of the grey where black and white have the same contrast.
  ["rgb(116, 116, 116)", "white"],
  ["rgb(118, 118, 118)", "black"],
])("text on %s is %s", (colour, text) => expect(contrastingTextColour(colour)).toBe(text));
