package remote

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/lua"
)

// Script is one script as an observer hears of it, with all attempts to send it.
type Script struct {
	Name    string
	Took    time.Duration // since it was first sent
	Repeats int           // how often it was sent again
	Err     error         // the last answer, if that was an error, or why there is none
}

// Told tells of a script that was first sent at a time.
func (s *Session) Told(script *lua.Script, begun time.Time, repeats int, err error) {
	if s.Heard == nil || script == nil {
		return
	}
	s.Heard(Script{script.Name(), suspend.System.Now().Sub(begun), repeats, err})
}

// Begin is the time before a pipeline is sent, for [Session.Answered]; zero if nobody wants to know.
func (s *Session) Begin() time.Time {
	if s.Heard == nil {
		return time.Time{}
	}
	return suspend.System.Now()
}

// Answered tells of the calls of a pipeline.
func (s *Session) Answered(begun time.Time, calls []lua.Call, results []lua.Result) {
	if s.Heard == nil {
		return
	}
	took := suspend.System.Now().Sub(begun)
	for i, c := range calls {
		s.Heard(Script{Name: c.Script().Name(), Took: took, Err: results[i].Err})
	}
}
