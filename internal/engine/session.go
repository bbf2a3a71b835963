package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/task"
)

// session is whose operations they are: a client, from its beginning until it has been closed.
type session struct {
	life    context.Context // ends when the client is being closed
	tasks   *task.Group     // operations that outlive their caller
	log     *slog.Logger
	retry   time.Duration // for how long an operation may go on
	publish string        // command that announces a release

	undoMu  sync.Mutex
	undoers map[undoing]*undoer // guarded by undoMu
}
