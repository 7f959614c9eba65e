import { expect, it } from "vitest";
import { contrastingTextColour, distinctColours, serviceColour } from "./colours";

it.each([
  ["rgb(0, 0, 0)", "white"],
  ["rgb(255, 255, 255)", "black"],
  ["rgb(255, 255, 0)", "black"],
  ["rgb(0, 0, 255)", "white"],
  // On both sides of the grey where black and white have the same contrast.
  ["rgb(116, 116, 116)", "white"],
  ["rgb(118, 118, 118)", "black"],
])("text on %s is %s", (colour, text) => expect(contrastingTextColour(colour)).toBe(text));

it("up to 36 services that are shown together have different colours", () => {
  const services = Array.from({ length: 36 }, (_, index) => `service-${index}`);
  const colours = distinctColours(services);
  expect(new Set(colours.values()).size).toBe(36);
  const hueOf = (service: string) => /hsl\((\d+)/.exec(colours.get(service) ?? "")?.[1];
  expect(new Set(services.slice(0, 12).map(hueOf)).size).toBe(12);
  // The first has the colour that it has on every page.
  expect(colours.get("service-0")).toBe(serviceColour("service-0"));
});
