package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/watchdog"
)

// reading is a server's clock beside ours.
type reading struct {
	server time.Time
	ours   time.Time     // the middle of the round trip, with our monotonic clock
	within time.Duration // half of the round trip: how wrong that may be
}

// readClock takes the quickest of some answers.
func readClock(ctx context.Context, node *redis.Client) (best reading, err error) {
	for range 5 {
		sent := time.Now()
		server, err := node.Time(ctx).Result()
		if err != nil {
			return reading{}, err
		}
		half := time.Since(sent) / 2
		if best.server.IsZero() || half < best.within {
			best = reading{server, sent.Add(half), half}
		}
	}
	return best, nil
}

// clock: leases end by the server's clock, and holders trust theirs. What a clock shows does not
// matter, only its rate, within a hundredth.
func clock(ctx context.Context, p *patient) []Finding {
	if p.began.server.IsZero() {
		return []Finding{{
			Level: Unknown, Found: "TIME is refused",
			Means:  "locks need it; and a clock that runs at another rate than ours ends leases early",
			Remedy: "give this user +time",
		}}
	}
	wait := time.NewTimer(p.Span - time.Since(p.began.ours))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
		return nil
	}
	now, err := readClock(ctx, p.node)
	if err != nil {
		return hidden("TIME is not answered", err, "a clock that runs at another rate than ours ends leases early", "+time")
	}
	return judgeClock(p.began, now)
}

// judgeClock compares two readings of one clock.
func judgeClock(began, now reading) []Finding {
	passed, theirs := now.ours.Sub(began.ours), now.server.Sub(began.server)
	within := began.within + now.within
	apart := now.server.Sub(now.ours)
	shows := "agrees with ours, within " + brief(max(apart.Abs(), now.within))
	if apart.Abs() > time.Second {
		shows = fmt.Sprintf("shows %s more than ours", brief(apart))
		if apart < 0 {
			shows = fmt.Sprintf("shows %s less than ours", brief(-apart))
		}
	}
	off := (theirs - passed).Abs()
	switch allowed := passed / watchdog.Drift; {
	case off > allowed+within:
		return []Finding{{
			Level: Error, Found: fmt.Sprintf("while %s passed here, the server's clock went on by %s", brief(passed),
				brief(theirs)),
			Means:  "it runs at another rate, or is being set: leases end before holders expect it, or long after",
			Remedy: "let NTP slew the clocks of both machines, not step them; see that virtual machines are not paused",
		}}
	case within > allowed:
		return []Finding{{
			Level: Unknown, Found: fmt.Sprintf("the server clock %s; answers take %s, which is too long to tell its rate", shows,
				brief(2*now.within)),
			Means:  "a clock that runs more than 1 % faster than ours ends leases before holders expect it",
			Remedy: "run this nearer to the server",
		}}
	case apart.Abs() > time.Minute:
		return []Finding{{
			Level: Note, Found: "the server clock " + shows + ", and runs at our rate",
			Means: "locks do not mind; logs of the two machines do not fit together", Remedy: "run NTP on both machines",
		}}
	}
	return ok("the server clock %s, and runs at our rate", shows)
}

// latency: a renewal that takes too long is tried again, and one attempt takes at most a tenth of the
// lease.
func latency(ctx context.Context, p *patient) []Finding {
	const samples, enough = 100, 2 * time.Second
	took := make([]time.Duration, 0, samples)
	for began := time.Now(); len(took) < samples && (len(took) < 5 || time.Since(began) < enough); {
		sent := time.Now()
		if err := p.node.Ping(ctx).Err(); err != nil && !refused(err) { // a refusal takes as long as an answer
			return []Finding{{Level: Error, Found: fmt.Sprintf("no answer to PING: %v", err),
				Means: "renewals fail as this one did"}}
		}
		took = append(took, time.Since(sent))
	}
	slices.Sort(took)
	return judgeLatency(took, p.Lease)
}

// judgeLatency takes round trips in order.
func judgeLatency(took []time.Duration, lease time.Duration) []Finding {
	half, worst := took[len(took)/2], took[(len(took)*99-1)/100]
	found := fmt.Sprintf("round trips of %s (p50) and %s (p99); a renewal may take %s", brief(half), brief(worst),
		brief(lease/10))
	switch {
	case worst > lease/10:
		return []Finding{{
			Level: Error, Found: found, Means: "renewals come too late, and holds are lost",
			Remedy: "a longer lease: from " + brief(worst*40) + " up; a server nearer by; see LATENCY DOCTOR and SLOWLOG GET",
		}}
	case worst > lease/40:
		return []Finding{{
			Level: Warning, Found: found, Means: "when the server is busy, renewals come too late, and holds are lost",
			Remedy: "a longer lease: from " + brief(worst*40) + " up; a server nearer by; see LATENCY DOCTOR and SLOWLOG GET",
		}}
	}
	return ok("%s", found)
}
