package holdfastgocron

import (
	"context"
	"errors"
	"sync"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast/election"
)

// ErrNotLeader says that another scheduler leads, or none.
var ErrNotLeader = errors.New("holdfastgocron: this scheduler does not lead")

// Elector is a gocron.Elector, for gocron.WithDistributedElector. It leads only while [Elector.Run]
// runs. Make one with [NewElector]. All methods are safe for concurrent use.
//
// gocron asks the Elector before each run, and then asks no Locker.
type Elector struct {
	election *election.Election

	mu    sync.Mutex      // guards what follows
	ctx   context.Context // of the term in which this scheduler leads; nil: it does not
	tasks *sync.WaitGroup // that run in this term
}

var _ gocron.Elector = (*Elector)(nil)

// NewElector makes an Elector of an election. It does not campaign yet; Run does.
func NewElector(e *election.Election) *Elector { return &Elector{election: e} }

// Run campaigns, and leads until ctx ends or the leadership is lost, then campaigns again. It returns
// when ctx has ended, or with an error with which no campaign can succeed: those of
// [election.Election.Run]. value is what the election tells others of the leader.
//
// Before it resigns, it waits for the tasks of [Elector.Task] that are running, whose context has
// ended. Others are not waited for; shut the scheduler down before ctx ends.
func (e *Elector) Run(ctx context.Context, value string) error {
	return e.election.Run(ctx, value, func(term context.Context) error {
		tasks := new(sync.WaitGroup)
		e.lead(term, tasks)
		defer tasks.Wait()
		defer e.leave()
		<-term.Done()
		return nil
	})
}

func (e *Elector) lead(term context.Context, tasks *sync.WaitGroup) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ctx, e.tasks = term, tasks
}

func (e *Elector) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ctx, e.tasks = nil, nil
}

// IsLeader is called by gocron before each run. It asks nobody: it knows by the clock of this process.
func (e *Elector) IsLeader(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx == nil || e.ctx.Err() != nil {
		return ErrNotLeader
	}
	return nil
}

// begin notes a task of the term.
func (e *Elector) begin() (term context.Context, done func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx == nil || e.ctx.Err() != nil {
		return nil, nil, ErrNotLeader
	}
	e.tasks.Add(1)
	return e.ctx, e.tasks.Done, nil
}

// Task makes a task of fn whose context ends when the leadership does, with its cause, such as
// [holdfast.ErrLost], and when gocron ends the job. The context carries the fencing token. If the
// leadership was lost, the task's error is ErrLost too. If it had ended before the task began, fn is not
// called, and the error is [ErrNotLeader].
//
// [holdfast.ErrLost]: https://pkg.go.dev/github.com/holdfast-go/holdfast#ErrLost
func (e *Elector) Task(fn func(ctx context.Context) error) func(ctx context.Context) error {
	return func(job context.Context) error {
		if fn == nil {
			return errNoTask
		}
		term, done, err := e.begin()
		if err != nil {
			return err
		}
		defer done()
		ctx, cancel := context.WithCancelCause(term)
		defer cancel(nil)
		defer context.AfterFunc(job, func() { cancel(context.Cause(job)) })()
		return told(ctx, fn)
	}
}
