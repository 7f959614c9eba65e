import { serviceColour } from "../lib/colours";
import classes from "./ServiceDot.module.css";

/** The colour of a service, next to its name. */
export function ServiceDot({ service }: { service: string }) {
  return <span className={classes.dot} style={{ background: serviceColour(service) }} aria-hidden />;
}
