// Package doctor looks for what endangers locks in a server of Redis and in the settings of its
// clients: what it evicts or forgets, who may stand in for it, what its user may not do, how far away
// it is and how its clock runs.
//
// Each finding says what was seen, what that means for the promise of a lock, and what to do. What the
// server does not tell is unknown, never bad: managed services hide commands, and users lack
// permissions, without a lock being worse for it.
//
// Examine leaves nothing behind in Redis and disturbs nobody. It reads, and it tries locks and commands
// on names that nobody else has, whose keys it deletes in the very packet that makes them. What it
// might leave if it is killed at the wrong moment has a time to live, of an hour at most.
//
// Not promised: that a server without findings keeps every promise. Findings are of one moment, a
// failover may bring another server with other settings, and of the clients only the one that asks is
// looked at.
package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Level is how bad a finding is. A greater one is worse.
type Level int

// The levels. Unknown is between them: what nobody could look at may be as bad as anything, and
// something that was seen to be bad is worse.
const (
	OK      Level = iota
	Note          // worth knowing
	Unknown       // the server does not tell, or a permission is missing
	Warning       // a promise is weaker than it could be
	Error         // locks do not work, or are lost in normal operation
)

var levels = [...]string{OK: "ok", Note: "note", Unknown: "unknown", Warning: "warning", Error: "error"}

// String is the level's name in lower case.
func (l Level) String() string {
	if l < 0 || int(l) >= len(levels) {
		return fmt.Sprintf("Level(%d)", int(l))
	}
	return levels[l]
}

// MarshalText makes JSON of a level its name.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Finding is what one check has to say about one server.
type Finding struct {
	Check  string `json:"check"`            // its name, which stays
	Server string `json:"server,omitempty"` // host:port; empty: all of them, or the client
	Level  Level  `json:"level"`
	Found  string `json:"found"`            // what was seen
	Means  string `json:"means,omitempty"`  // what that does to locks; empty if nothing
	Remedy string `json:"remedy,omitempty"` // empty if there is nothing to do
	// Command is one for a shell that is a part of the remedy; empty if there is none.
	Command string `json:"command,omitempty"`
}

// Settings are what locks are to be like.
type Settings struct {
	Lease  time.Duration // of the locks; default 30 s
	Prefix string        // what the names of the locks that are tried begin with, where a user may not use others
	// Span is how long to look at a server's clock: two looks so far apart tell whether it runs at our
	// rate. Default 1 s, which tells a per cent where answers come within 2 ms.
	Span time.Duration
}

func (s Settings) withDefaults() Settings {
	if s.Lease <= 0 {
		s.Lease = 30 * time.Second
	}
	if s.Span <= 0 {
		s.Span = time.Second
	}
	return s
}

// Worst is the greatest level among findings, OK if there are none.
func Worst(findings []Finding) Level {
	worst := OK
	for _, f := range findings {
		worst = max(worst, f.Level)
	}
	return worst
}

// check looks at one thing. A check that does not apply to a server finds nothing.
type check struct {
	name string
	look func(ctx context.Context, p *patient) []Finding
}

// checks are in the order of the report: what the server is, what it forgets, whether it can be used,
// how it answers. The clock comes last, because the longer it is looked at the better.
var checks = []check{
	{"version", version},
	{"role", role},
	{"cluster", cluster},
	{"eviction", eviction},
	{"memory", memory},
	{"persistence", persistence},
	{"replicas", replicas},
	{"connections", connections},
	{"buffers", buffers},
	{"permissions", permissions},
	{"life", life},
	{"messages", messages},
	{"denied", denied},
	{"latency", latency},
	{"timeouts", timeouts},
	{"clock", clock},
}

// Examine looks at all that a client of one Redis talks to: the server, the master behind Sentinel, or
// each master of a Cluster. The error is of a server that did not answer at all.
func Examine(ctx context.Context, rdb redis.UniversalClient, s Settings) ([]Finding, error) {
	patients, err := admit(ctx, rdb, s.withDefaults())
	if err != nil {
		return nil, err
	}
	return examine(ctx, patients)
}

func examine(ctx context.Context, patients []*patient) (found []Finding, err error) {
	for _, c := range checks {
		for i, p := range patients {
			if i > 0 && ofTheClient[c.name] {
				continue
			}
			for _, f := range c.look(ctx, p) {
				f.Check = c.name
				if !ofTheClient[c.name] {
					f.Server = p.address
				}
				found = append(found, f)
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx) // what was seen last may be the end of our patience
			}
		}
	}
	return found, nil
}

// ofTheClient are the checks that find the same whichever master is looked at.
var ofTheClient = map[string]bool{"timeouts": true}

// hidden is the finding of a check that was not answered.
func hidden(what string, err error, means, permission string) []Finding {
	return []Finding{{
		Level: Unknown, Found: fmt.Sprintf("%s: %v", what, err), Means: means,
		Remedy: "run this as a user with " + permission + ", or ask whoever runs the server",
	}}
}

func ok(found string, args ...any) []Finding {
	return []Finding{{Level: OK, Found: fmt.Sprintf(found, args...)}}
}
