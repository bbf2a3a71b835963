package master

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/pipeline"
)

// Run is one process of a server, from its start to its end.
type Run struct {
	// ID is what the server calls it.
	ID string
	// Since is from when on it has all that was granted by this server: its start, or when it took
	// over from another one.
	Since time.Time
	// Follows says that the server was another process before. Else it is not known what was
	// before.
	Follows bool

	dials uint64    // before it was looked at
	seen  time.Time // for the last time
}

// together is how much later than the first of them the servers of a new quorum start, as far as
// their ages tell, which are up to two seconds less than they are.
const together = 3 * time.Second

// Doubt says why a vote of this run does not count yet, nil if it does. lease is the longest one
// that may have been granted by the server and forgotten; first is the start of the oldest one of
// the masters. A server whose past is not known and which is as young as all the others is taken
// for a new one.
func (r *Run) Doubt(lease time.Duration, first time.Time) error {
	age := time.Since(r.Since)
	if age >= lease || !r.Follows && r.Since.Sub(first) <= together {
		return nil
	}
	return fmt.Errorf("granted, but it started %s ago and may have forgotten an earlier grant: its vote counts in %v",
		r.Age(), (lease - age).Round(time.Millisecond))
}

// Age says how long ago it started, as exactly as a server tells that.
func (r *Run) Age() string {
	return "about " + max(time.Since(r.Since).Round(time.Second), time.Second).String()
}

// Known is the run as of the last look, nil if there was none.
func (m *Master) Known() *Run { return m.run.Load() }

// IsMet reports whether [Master.Meet] has returned.
func (m *Master) IsMet() bool { return m.met.Load() }

// Meet asks the server for its run, once, before its first vote: the run's id tells whether another client reaches the same
// server. It returns the error of the question. Where there is no id, what comes behind the vote tells, see [Master.Heard].
func (m *Master) Meet(ctx context.Context) error {
	if m.met.Load() {
		return nil
	}
	defer m.met.Store(true) // also after an error: a master that is down must not hold up each election
	dials := m.dials.Load()
	text, err := m.info(ctx)
	_, _ = m.heard(text, err, dials)
	return err
}

// Run is the run of the server that has given the answers up to now. It asks the server if a
// connection was made since it did so last.
func (m *Master) Run(ctx context.Context) (*Run, error) {
	dials := m.dials.Load()
	if r := m.run.Load(); r != nil && r.dials == dials {
		return r, nil
	}
	text, err := m.info(ctx)
	return m.heard(text, err, dials)
}

// Heard is the run of a server that has just replied to INFO, or why it did not. Asked behind a
// vote on the same connection, this is the run that gave the vote or a later one, which counts
// less. A connection alone does not tell: a proxy may keep it while the server is started anew.
// (Rejected: INFO in the script itself, which every vote would wait for that is refused, too.)
func (m *Master) Heard(text string, err error) (*Run, error) {
	return m.heard(text, err, m.dials.Load())
}

func (m *Master) heard(text string, err error, dials uint64) (*Run, error) {
	if err != nil {
		return nil, fmt.Errorf("granted, but it does not tell since when it runs: %w", err)
	}
	now := time.Now()
	id, age, err := parse(text)
	if err != nil {
		return nil, err
	}
	for {
		before := m.run.Load()
		r := &Run{ID: id, Since: now.Add(-age), dials: dials, seen: now}
		switch {
		case before == nil:
		case before.ID == id: // what the server's clock makes of its age does not matter any more
			r.Since, r.Follows = before.Since, before.Follows
			if before.dials > dials {
				return before, nil // somebody else has looked after us
			}
		default:
			r.Follows = true
			if r.Since.Before(before.seen) { // it was there beside the one before: a replica, or another server
				r.Since = now
			}
		}
		if m.run.CompareAndSwap(before, r) {
			return r, nil
		}
	}
}

func (m *Master) info(ctx context.Context) (text string, err error) {
	defer panics.Into(&err)
	pipe := m.rdb.Pipeline() // for the timeout of its context, see remote.Server.Within
	cmd := pipe.Info(ctx, "server")
	pipeline.Exec(ctx, pipe)
	return cmd.Result()
}

// parse reads what INFO says. The age is the least that it can be.
func parse(info string) (id string, age time.Duration, err error) {
	seconds, told := int64(0), false
	for line := range strings.Lines(info) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), ":"); key {
		case "run_id":
			id = value
		case "uptime_in_seconds":
			seconds, err = strconv.ParseInt(value, 10, 64)
			told = true
		}
	}
	if id == "" || !told || err != nil {
		return "", 0, errors.New("granted, but INFO has no run_id and uptime_in_seconds, which tell since when it runs")
	}
	// The server takes the difference of two times that are both cut to whole seconds. It is
	// negative if its clock was set back since it started: then it is as if it started when it was
	// asked first.
	return id, time.Duration(min(max(seconds-1, 0), int64(100*365*24*time.Hour/time.Second))) * time.Second, nil
}
