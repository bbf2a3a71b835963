package remote

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/task"
)

// Session is whose operations they are: a client, from its beginning until it has been closed.
type Session struct {
	Life    context.Context // ends when the client is being closed
	Tasks   *task.Group     // operations that outlive their caller
	Log     *slog.Logger
	Retry   time.Duration // for how long an operation may go on
	Publish string        // command that announces a release
	// Leave is called with how many locks are left at a server because the client is being closed,
	// and why.
	Leave func(locks int, why error)
	// Heard is called with each script that has been answered, or will not be. It must not block. nil:
	// nobody wants to know.
	Heard func(Script)

	undoMu  sync.Mutex
	undoers map[undoing]*undoer // guarded by undoMu
}
