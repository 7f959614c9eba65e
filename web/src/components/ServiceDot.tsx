import classes from "./ServiceDot.module.css";

/** The colour of a service, next to its name. */
export function ServiceDot({ colour }: { colour: string }) {
  return <span className={classes.dot} style={{ background: colour }} aria-hidden />;
}
