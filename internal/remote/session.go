package remote

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/internal/task"
	"github.com/holdfast-go/holdfast/lua"
)

// Session is the client whose operations are sent, from its beginning until it has been closed.
type Session struct {
	Life    context.Context // ends when the client is being closed
	Tasks   *task.Group     // operations that outlive their caller
	Log     *slog.Logger
	Retry   time.Duration // how long an operation may go on
	Publish string        // command that announces a release
	// NoteUnreleased is called when the client gives up locks at a server because it is being closed.
	// It gets the number of these locks, and why they were not released.
	NoteUnreleased func(locks int, why error)
	// OnScript is called with each script that has been answered, or will not be. It must not block.
	// nil: there is no observer.
	OnScript func(Script)

	undoMu  sync.Mutex
	undoers map[undoing]*undoer // guarded by undoMu
}

// Budget returns how long an operation may take.
func (s *Session) Budget() time.Duration {
	if s.Life.Err() != nil {
		return min(s.Retry, closingBudget)
	}
	return s.Retry
}

// NotePanic logs an error that is the panic of a hook or dialer of go-redis. There may be no caller
// left to panic in, and the caller's own panic does not show where the hook's was.
func (s *Session) NotePanic(err error) {
	if p := panics.In(err); p != nil {
		s.Log.Error("a command failed", "error", p, "stack", string(p.Stack))
	}
}

// Script is what an observer learns about one script, with all attempts to send it.
type Script struct {
	Name    string
	Took    time.Duration // since the script was first sent
	Repeats int           // how often the script was sent again
	Err     error         // the last answer, if that was an error, or why there is no answer
}

// Report tells the observer about a script that was first sent at begun.
func (s *Session) Report(script *lua.Script, begun time.Time, repeats int, err error) {
	if s.OnScript == nil || script == nil {
		return
	}
	s.OnScript(Script{script.Name(), suspend.System.Now().Sub(begun), repeats, err})
}

// Begin returns the time before a pipeline is sent, for [Session.ReportAll]. It is zero if there is
// no observer.
func (s *Session) Begin() time.Time {
	if s.OnScript == nil {
		return time.Time{}
	}
	return suspend.System.Now()
}

// ReportAll tells the observer about the calls of a pipeline.
func (s *Session) ReportAll(begun time.Time, calls []lua.Call, results []lua.Result) {
	if s.OnScript == nil {
		return
	}
	took := suspend.System.Now().Sub(begun)
	for i, c := range calls {
		s.OnScript(Script{Name: c.Script().Name(), Took: took, Err: results[i].Err})
	}
}
