//! Steps back in time: from the newest end of the window, or from where the page before ended, until the page is full. The
//! cost follows the answer, not the window.
//!
//! A step reads the spans that the order looks at, in its part of the window, and has their traces in order. A trace's
//! newest such span there is its place in the order, unless it has a newer one, and then the trace was met before: in an
//! earlier step of this page, or on an earlier page. What these spans do not show of a trace is asked for by its id.

use std::collections::HashSet;

use tracewarden_model::Timestamp;

use super::demands::Demand;
use super::estimates::Experience;
use super::found::{Found, Page};
use super::search::{Search, Sight, Spans};
use crate::StoreError;
use crate::select::Position;
use crate::sql::Statement;

/// A trace that a step met.
#[derive(Debug, Clone)]
struct Met {
    trace: String,
    /// Of its spans in the step that the order looks at, the newest, in ticks, and how many there are.
    newest: i64,
    spans: u64,
    /// Of all its spans that the step looked at the oldest and the newest, in ticks.
    extent: (i64, i64),
    /// Which demands they show, beside the one that they all do.
    flags: Vec<bool>,
}

impl Met {
    /// Its place in the order, if it was not met before.
    fn position(&self) -> Position {
        Position { tier: 1, key: self.newest, trace_id: self.trace.clone() }
    }
}

type Row = (String, i64, i64, i64, u64, Vec<u8>);

/// How steps went on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Went {
    /// The page is full, or everything inside the window has been looked at.
    Through,
    /// The traces that were met hardly ever belong to the answer. Everything up to this place is settled.
    Disappointed(Position),
}

/// How many traces steps may meet in vain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Those of one chunk.
    Short,
    /// As many as [`super::Tuning::rejected`] says.
    Long,
    /// All.
    Endless,
}

/// The part of the window that is left.
pub(crate) struct Walk {
    /// Where the page begins, in nanoseconds, exclusive.
    begin: i64,
    /// Where it ends, in nanoseconds, exclusive.
    top: i64,
    /// At the very end of it, what is behind this place.
    after: Option<Position>,
    /// Length of the next step, in nanoseconds.
    length: i64,
    /// Most traces of the next step.
    chunk: usize,
    /// Steps made.
    steps: u32,
    /// Whether an earlier search tells how many traces it takes.
    informed: bool,
    /// Whether a step looks at what shows the other demands, too: then it can tell of traces that they do not belong to the
    /// answer, if nothing of them lies beyond the step.
    wide: bool,
    /// Traces looked at, and how many of them did not belong to the answer.
    met: HashSet<String>,
    rejected: usize,
}

impl Search<'_> {
    /// Where the traces of the page begin, in nanoseconds, exclusive.
    pub(crate) fn begin(&self) -> i64 {
        let to = self.window.to().as_nanos();
        match &self.after {
            Some(after) => self.nanos(after.key.saturating_add(1)).min(to),
            None => to,
        }
    }

    /// A walk from the newest end, with a first step so many nanoseconds long.
    pub(crate) fn walk(&self, first: i64) -> Walk {
        let experience = self.experience();
        Walk {
            begin: self.begin(),
            top: self.begin(),
            after: self.after.clone(),
            length: first.max(1),
            // What is cut is read again: worth it only where all that are met belong to the page.
            chunk: match self.unproven().as_slice() {
                [] => self.wanted.saturating_mul(2),
                _ => self.tuning.max_chunk,
            },
            steps: 0,
            informed: experience.is_some(),
            wide: experience.is_some_and(|experience| experience.wide),
            met: HashSet::new(),
            rejected: 0,
        }
    }

    /// Walks on until the page is full.
    pub(crate) async fn steps(
        &self,
        walk: &mut Walk,
        patience: Patience,
        page: &mut Page,
    ) -> Result<Went, StoreError> {
        let from = self.window.from().as_nanos();
        while walk.top > from {
            let bottom = self.bottom(walk);
            walk.wide = walk.wide || self.widens((bottom, walk.top), walk, page.len()).await;
            let met = self.step(bottom, walk).await?;
            walk.steps = walk.steps.saturating_add(1);
            let cut = met.len() >= walk.chunk;
            let last = met.last().map(Met::position);
            let before = page.len();
            let stopped = self.settle(met, bottom, patience, walk, page).await?;
            let place = match stopped.or_else(|| last.filter(|_| cut)) {
                Some(last) => {
                    let cut_at = self.nanos(last.key.saturating_add(1)).min(walk.top);
                    // What lies behind the cut is read again: no more of it than so many traces need, as these did.
                    let walked = walk.top.saturating_sub(cut_at).max(1);
                    walk.length = walk.length.min(walked.saturating_mul(12));
                    walk.top = cut_at;
                    walk.after = Some(last.clone());
                    walk.chunk = walk.chunk.saturating_mul(8).min(self.tuning.max_chunk);
                    last
                }
                _ => {
                    walk.length = self.next_length(walk, bottom, page.len() - before, page).await;
                    walk.top = bottom;
                    walk.after = None;
                    // Before every span from the bottom on, and behind all others.
                    Position {
                        tier: 1,
                        key: self.ticks_from(bottom).saturating_sub(1),
                        trace_id: String::new(),
                    }
                }
            };
            if walk.after.is_none() {
                self.report(bottom, page.len());
            }
            if page.len_through(&place) >= self.wanted {
                break;
            }
            if self.is_disappointed(walk, patience, page) {
                return Ok(Went::Disappointed(place));
            }
        }
        self.learn(walk, page).await;
        Ok(Went::Through)
    }

    fn is_disappointed(&self, walk: &Walk, patience: Patience, page: &Page) -> bool {
        match patience {
            Patience::Short => {
                let vain = walk.rejected > self.wanted.saturating_mul(self.tuning.chunk);
                (vain && page.len() == 0) || walk.rejected > self.tuning.rejected
            }
            Patience::Long => walk.rejected > self.tuning.rejected,
            Patience::Endless => false,
        }
    }

    /// Where a step begins, in nanoseconds: at a whole tick, so that no span's time is in two of them.
    fn bottom(&self, walk: &Walk) -> i64 {
        let from = self.window.from().as_nanos();
        let bottom = walk.top.saturating_sub(walk.length);
        let bottom = bottom.div_euclid(self.table.nanos_per_tick).saturating_mul(self.table.nanos_per_tick);
        if bottom >= walk.top { from } else { bottom.max(from) }
    }

    /// The traces with spans in a step that the order looks at, in order; at most as many as a chunk has.
    async fn step(&self, bottom: i64, walk: &Walk) -> Result<Vec<Met>, StoreError> {
        let statement = self.step_statement(bottom, walk.top, walk.after.as_ref(), walk.chunk, walk.wide)?;
        let rows: Vec<Row> = self.rows(statement).await?;
        let asked = self.unproven().len();
        let met = rows.into_iter().map(|(trace, newest, oldest, last, spans, flags)| {
            // A flag that is missing must not pass for one that is set.
            if flags.len() != asked {
                return Err(StoreError::Short("a row lacks what was asked of its trace".to_owned()));
            }
            let flags = flags.into_iter().map(|flag| flag == 1).collect();
            Ok(Met { trace, newest, spans, extent: (oldest, last), flags })
        });
        met.collect()
    }

    pub(crate) fn step_statement(
        &self,
        bottom: i64,
        top: i64,
        after: Option<&Position>,
        chunk: usize,
        wide: bool,
    ) -> Result<Statement, StoreError> {
        let mut statement = self.table.statement();
        let key = self.demands.key(self.table, &mut statement)?;
        let satisfied = self
            .unproven()
            .into_iter()
            .map(|demand| self.demands.satisfied(demand, self.table, &mut statement))
            .collect::<Result<Vec<String>, StoreError>>()?;
        let flags = satisfied.iter().map(|one| format!("countIf({one}) > 0")).collect::<Vec<_>>().join(", ");
        let range = Some((Timestamp::from_nanos(bottom), Timestamp::from_nanos(top)));
        let range = self.range(range, &mut statement);
        let [trace, newest] = ["trace", "newest"].map(|name| statement.own(name));
        let (id, ticks) = (&self.table.trace_id, &self.table.ticks);
        // Spans are left out, not traces: one whose newest span does not count stands further behind, by another span.
        let behind = match after {
            None => String::new(),
            Some(after) => {
                let (key, after) = (statement.int(after.key), statement.string(&after.trace_id));
                format!(" AND ({ticks} < {key} OR {id} > {after})")
            }
        };
        let (last, spans, looked_at, also) = if wide {
            let looked_at = format!("({})", [std::slice::from_ref(&key), &satisfied].concat().join(" OR "));
            let counted = format!("countIf({key})");
            let also = format!(" AND {counted} > 0");
            (format!("maxIf({ticks}, {key})"), counted, looked_at, also)
        } else {
            (format!("max({ticks})"), "count()".to_owned(), key, String::new())
        };
        statement.push(&format!(
            "SELECT {id} AS {trace}, {last} AS {newest}, min({ticks}), max({ticks}), {spans}, [{flags}] FROM {name} \
             WHERE {range}{behind} AND {looked_at} GROUP BY {trace} HAVING {is_trace}{also} \
             ORDER BY {newest} DESC, {trace} ASC LIMIT {chunk}",
            name = self.table.name,
            is_trace = Self::is_trace(&trace),
        ));
        Ok(statement)
    }

    /// The demands that a span may show, beside the one that every span shows that the order looks at.
    fn unproven(&self) -> Vec<Demand> {
        let implied = self.demands.implied();
        self.demands.all().into_iter().filter(|demand| Some(*demand) != implied).collect()
    }

    /// Puts on the page what belongs there of the traces that a step met, at least until the page is full. A place where it
    /// was given up: what the step met behind it has not been looked at.
    async fn settle(
        &self,
        met: Vec<Met>,
        bottom: i64,
        patience: Patience,
        walk: &mut Walk,
        page: &mut Page,
    ) -> Result<Option<Position>, StoreError> {
        // Where the step has looked at all spans that count. At the tick at which it begins, some were left out.
        let top = walk.after.as_ref().map_or(walk.top, |after| self.nanos(after.key).min(walk.top));
        let seen = walk.wide.then_some((bottom, top));
        let fresh: Vec<Met> = met.into_iter().filter(|met| !walk.met.contains(&met.trace)).collect();
        let mut rest = fresh.as_slice();
        let mut more = 1_usize;
        while let Some(next) = rest.first() {
            // Traces in doubt may have been found further behind, where others can still come before them.
            let found = page.len_through(&next.position());
            if found >= self.wanted {
                break;
            }
            // As many as fill the page if nothing is wrong with those that show everything already.
            let need = self.wanted.saturating_sub(found).saturating_mul(more);
            // Where many of them turn out to be on earlier pages, there are ever more of them in one question.
            more = more.saturating_mul(2);
            let shown = |met: &&Met| met.flags.iter().all(|flag| *flag);
            let end = rest.iter().enumerate().filter(|(_, met)| shown(met)).nth(need.saturating_sub(1));
            let end = end.map_or(rest.len(), |(at, _)| at + 1);
            // Of what they show nothing is known at first: a few tell how many of them it takes.
            let few = need.saturating_mul(self.tuning.chunk).max(walk.met.len().saturating_mul(4));
            let (wave, behind) = rest.split_at(if walk.informed { end } else { end.min(few.max(1)) });
            let before = page.len();
            self.settle_wave(wave, seen, page).await?;
            walk.met.extend(wave.iter().map(|met| met.trace.clone()));
            walk.rejected =
                walk.rejected.saturating_add(wave.len().saturating_sub(page.len().saturating_sub(before)));
            rest = behind;
            if !rest.is_empty() && self.is_disappointed(walk, patience, page) {
                return Ok(wave.last().map(Met::position));
            }
        }
        Ok(None)
    }

    async fn settle_wave(
        &self,
        wave: &[Met],
        seen: Option<(i64, i64)>,
        page: &mut Page,
    ) -> Result<(), StoreError> {
        let ids: Vec<String> = wave.iter().map(|met| met.trace.clone()).collect();
        let sight = self.sight(&ids).await?;
        let counts = |met: &Met| sight.holds(&met.trace, self.nanos(met.extent.0), self.nanos(met.extent.1));
        let (certain, doubtful): (Vec<&Met>, Vec<&Met>) = wave.iter().partition(|met| counts(met));
        let mut doubtful: HashSet<String> = doubtful.into_iter().map(|met| met.trace.clone()).collect();

        let (mut kept, mut missing): (Vec<&Met>, Vec<&Met>) =
            certain.into_iter().partition(|met| met.flags.iter().all(|flag| *flag));
        // Whatever could show the rest was looked at.
        missing.retain(|met| !seen.is_some_and(|seen| sight.is_within(&met.trace, seen)));
        kept.extend(self.complete(missing, &sight, &mut doubtful).await?);
        kept.retain(|met| !doubtful.contains(&met.trace));

        let earlier = self.on_earlier_pages(&kept, &sight, &mut doubtful).await?;
        for met in kept {
            if !earlier.contains(&met.trace) && !doubtful.contains(&met.trace) {
                page.insert(Found { position: met.position(), spans: met.spans });
            }
        }
        self.decide_in_doubt(doubtful.into_iter().collect(), page).await
    }

    /// Whether the next step is to look at what shows the other demands, too: when hardly any trace that was met belongs to the
    /// answer, and to read that costs less than to ask about each of those that it will meet.
    async fn widens(&self, (bottom, top): (i64, i64), walk: &Walk, found: usize) -> bool {
        let in_vain = walk.rejected >= self.tuning.wide_rejected
            && walk.rejected >= found.saturating_mul(self.tuning.wide_in_vain);
        // Without a trace index nothing says that a trace ends within the step.
        if !in_vain || self.index.is_none() || self.unproven().is_empty() {
            return false;
        }
        if !self.tuning.wide_maps && !self.demands.are_of_columns(self.table) {
            return false;
        }
        let step = Some((Timestamp::from_nanos(bottom), Timestamp::from_nanos(top)));
        let narrow = self.estimate(Spans::OfOrder, step, false).await;
        let wide = self.estimate(Spans::OfAnyDemand, step, false).await;
        let (Some(narrow), Some(wide)) = (narrow, wide) else { return false };
        let walked = walk.begin.saturating_sub(walk.top).max(1);
        let expected = walk.met.len() as f64 * (top.saturating_sub(bottom) as f64 / walked as f64);
        wide as f64 <= narrow as f64 * 1.25 + expected * self.tuning.rows_of_a_question
    }

    /// Those of some traces of which other spans show what is missing.
    async fn complete<'m>(
        &self,
        missing: Vec<&'m Met>,
        sight: &Sight,
        doubtful: &mut HashSet<String>,
    ) -> Result<Vec<&'m Met>, StoreError> {
        let mut left = missing;
        for (at, demand) in self.unproven().into_iter().enumerate() {
            let lacks = |met: &&Met| !met.flags.get(at).copied().unwrap_or(false);
            let ids: Vec<String> =
                left.iter().filter(|met| lacks(met)).map(|met| met.trace.clone()).collect();
            if ids.is_empty() {
                continue;
            }
            let showing = self.showing(&ids, demand, sight).await?;
            left.retain(|met| !lacks(met) || showing.shown.contains_key(&met.trace));
            doubtful.extend(showing.doubtful);
        }
        Ok(left)
    }

    /// Those of some traces that the pages before this one hold.
    async fn on_earlier_pages(
        &self,
        met: &[&Met],
        sight: &Sight,
        doubtful: &mut HashSet<String>,
    ) -> Result<HashSet<String>, StoreError> {
        let Some(after) = &self.after else { return Ok(HashSet::new()) };
        let begin = self.nanos(after.key);
        // What ends before this page begins has no span there.
        let reaches = |trace: &str| sight.of(trace).is_none_or(|(_, end)| end > begin);
        let ids: Vec<String> =
            met.iter().map(|met| met.trace.clone()).filter(|trace| reaches(trace)).collect();
        if ids.is_empty() {
            return Ok(HashSet::new());
        }
        let (newest, unsure) = self.newest_from(&ids, begin, sight).await?;
        doubtful.extend(unsure);
        // At the very tick where the page begins, its own traces have spans, too: those that were met there.
        let earlier =
            met.iter().filter(|met| newest.get(&met.trace).is_some_and(|newest| *newest > met.newest));
        Ok(earlier.map(|met| met.trace.clone()).collect())
    }

    /// How long the next step is: as long as the last ones make believe that it has to be.
    async fn next_length(&self, walk: &Walk, bottom: i64, gained: usize, page: &Page) -> i64 {
        let walked = walk.top.saturating_sub(bottom).max(1);
        if gained > 0 {
            let rest = self.wanted.saturating_sub(page.len()).max(1);
            let factor = (rest as f64 / gained as f64 * 1.25).clamp(0.125, 8.0);
            return ((walked as f64 * factor) as i64).max(1);
        }
        let longer = walked.saturating_mul(8);
        // Where nothing is at all, a longer step could be one too long once it meets data; but never step after step, since
        // ever shorter ones might not get there.
        if walk.met.is_empty() && walk.steps < 4 { self.affordable(bottom, longer).await } else { longer }
    }

    /// The length of a step that ends here, cut as long as a part of it costs much less than the whole. A table that is not
    /// in the order of time reads much even for a short step, and then a longer one costs the same.
    pub(crate) async fn affordable(&self, top: i64, length: i64) -> i64 {
        let mut length = length.max(1);
        let from = self.window.from().as_nanos();
        for _ in 0..4 {
            let range = |length: i64| {
                let bottom = top.saturating_sub(length).max(from);
                Some((Timestamp::from_nanos(bottom), Timestamp::from_nanos(top)))
            };
            let (whole, part) = futures::future::join(
                self.estimate(Spans::OfOrder, range(length), false),
                self.estimate(Spans::OfOrder, range(length / 16), false),
            )
            .await;
            let (Some(whole), Some(part)) = (whole, part) else { return length };
            let fair = part.saturating_add(part / 2).saturating_add(self.tuning.step_rows.saturating_mul(4));
            if whole <= fair {
                return length;
            }
            length = (length / 16).max(1);
        }
        length
    }

    /// Remembers how far apart the traces of the answer are, and what would have been the better way to them.
    async fn learn(&self, walk: &Walk, page: &Page) {
        let Ok(subject) = self.subject() else { return };
        if page.matched() == 0 {
            return;
        }
        let oldest =
            page.place(self.wanted).map_or(self.window.from().as_nanos(), |last| self.nanos(last.key));
        let walked = walk.begin.saturating_sub(oldest).max(1);
        let density = (page.len().min(self.wanted) as f64 / walked as f64).max(f64::MIN_POSITIVE);
        let wide = walk.wide || self.widens((oldest, walk.begin), walk, page.len()).await;
        let experience = Experience { density: Some(density), candidates: None, wide };
        self.store.memory.remember_experience(subject, experience);
    }
}
