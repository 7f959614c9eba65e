import { Button, UnstyledButton } from "@mantine/core";
import { useMemo, useState } from "react";
import { Visible } from "../../components/Visible";
import { serviceColour } from "../../lib/colours";
import { formatDuration } from "../../lib/duration";
import { visible } from "../../lib/visible";
import { servicesBySelf, type Trace } from "../../trace/model";
import classes from "./trace.module.css";

const FEW = 8;

/** Self time of each service, as a bar that is also the legend. */
export function Services({ trace, onFind }: { trace: Trace; onFind: (text: string) => void }) {
  const [all, setAll] = useState(false);
  const services = useMemo(() => servicesBySelf(trace), [trace]);
  const whole = services.reduce((sum, service) => sum + service.self, 0) || 1;
  const shown = all ? services.slice(0, 200) : services.slice(0, FEW);
  return (
    <section aria-label="Self time by service" className={classes.services}>
      <div className={classes.serviceBar} aria-hidden>
        {services.slice(0, 60).map((service) => (
          <span
            key={service.name}
            style={{ flexGrow: service.self / whole, background: serviceColour(service.name) }}
          />
        ))}
      </div>
      <div className={classes.legend}>
        <span className={classes.quiet}>Self time</span>
        {shown.map((service) => (
          <UnstyledButton
            key={service.name}
            className={classes.legendItem}
            onClick={() => onFind(service.name)}
            disabled={service.name === ""}
            title={visible(
              `${service.name || "(no service)"}: ${formatDuration(service.self)} of self time in ${service.spans} spans, ${service.errors} with errors. Press to find them.`.slice(
                0,
                300,
              ),
            )}
          >
            <span className={classes.dot} style={{ background: serviceColour(service.name) }} aria-hidden />
            <Visible text={service.name || "(no service)"} most={40} />
            <span className={classes.quiet}>{formatDuration(service.self)}</span>
            {service.errors > 0 && (
              <span className={classes.errorText}>
                {service.errors.toLocaleString("en")} {service.errors === 1 ? "error" : "errors"}
              </span>
            )}
          </UnstyledButton>
        ))}
        <span className={classes.legendItem}>
          <span className={classes.criticalLegend} aria-hidden />
          <span className={classes.quiet}>critical path</span>
        </span>
        {services.length > FEW && (
          <Button size="compact-xs" variant="subtle" onClick={() => setAll(!all)}>
            {all ? "Fewer" : `${(services.length - FEW).toLocaleString("en")} more`}
          </Button>
        )}
      </div>
    </section>
  );
}
