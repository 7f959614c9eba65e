import { Button, UnstyledButton } from "@mantine/core";
import { IconLockOpen } from "@tabler/icons-react";
import { useMemo, useState } from "react";
import { SanitizedText } from "../../components/SanitizedText";
import { ServiceDot } from "../../components/ServiceDot";
import { formatDuration } from "../../lib/duration";
import { countOf } from "../../lib/numbers";
import { sanitize } from "../../lib/sanitize";
import { hasEvents } from "../../trace/details";
import { servicesBySelf, type Trace } from "../../trace/model";
import classes from "./trace.module.css";
import { serviceColourIn } from "./useColours";
import waterfall from "./waterfall.module.css";

const INITIAL_COUNT = 8;

/** Self time of each service, as a bar that is also the legend. */
export function Services({
  trace,
  accessLabel,
  onFind,
}: {
  trace: Trace;
  /** Meaning of the padlock at spans, if there are any. */
  accessLabel: string | null;
  onFind: (text: string) => void;
}) {
  const [showAll, setShowAll] = useState(false);
  const services = useMemo(() => servicesBySelf(trace), [trace]);
  const totalSelf = services.reduce((sum, service) => sum + service.self, 0) || 1;
  const showsEvents = useMemo(() => trace.spans.some((span) => hasEvents(span, trace.columns)), [trace]);
  const shownServices = showAll ? services.slice(0, 200) : services.slice(0, INITIAL_COUNT);
  return (
    <section aria-label="Self time by service" className={classes.services}>
      <div className={classes.serviceBar} aria-hidden>
        {services.slice(0, 60).map((service) => (
          <span
            key={service.name}
            style={{ flexGrow: service.self / totalSelf, background: serviceColourIn(trace, service.name) }}
          />
        ))}
      </div>
      <div className={classes.legend}>
        <span className={classes.secondary}>Self time</span>
        {shownServices.map((service) => (
          <UnstyledButton
            key={service.name}
            className={classes.legendItem}
            onClick={() => onFind(service.name)}
            disabled={service.name === ""}
            title={sanitize(
              `${service.name || "(no service)"}: ${formatDuration(service.self)} of self time in ${service.spans} spans, ${service.errors} with errors. Press to find them.`.slice(
                0,
                300,
              ),
            )}
          >
            <ServiceDot colour={serviceColourIn(trace, service.name)} />
            <SanitizedText text={service.name || "(no service)"} maxLength={40} />
            <span className={classes.secondary}>{formatDuration(service.self)}</span>
            {service.errors > 0 && (
              <span className={classes.errorText}>{countOf(service.errors, "error")}</span>
            )}
          </UnstyledButton>
        ))}
        <span className={classes.legendItem}>
          <span className={classes.criticalLegend} aria-hidden />
          <span className={classes.secondary}>critical path</span>
        </span>
        {showsEvents && (
          <span className={classes.legendItem}>
            <span className={classes.eventLegend} aria-hidden />
            <span className={classes.secondary}>event (broad: exception)</span>
          </span>
        )}
        {accessLabel !== null && (
          <span className={classes.legendItem} title={accessLabel}>
            <IconLockOpen size={14} className={waterfall.accessMark} aria-hidden />
            <span className={classes.secondary}>grants access</span>
          </span>
        )}
        {services.length > INITIAL_COUNT && (
          <Button size="compact-xs" variant="subtle" onClick={() => setShowAll(!showAll)}>
            {showAll ? "Fewer" : `${(services.length - INITIAL_COUNT).toLocaleString("en")} more`}
          </Button>
        )}
      </div>
    </section>
  );
}
