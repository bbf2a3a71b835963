package controls_test

import (
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
)

// A grant counts only when replicas have it. What a failover does to one that they do not have is
// shown one folder up.
var replicaDefences = []proof{
	{
		name: "too few replicas", fault: "the server has no replica, and one is asked for", off: &defence.Replicas,
		try: func(l *lab) string {
			m := l.mutex(nil)
			h, err := m.TryLock(l.Context(), holdfast.WithReplicas(1, 50*time.Millisecond))
			if err == nil {
				require.NoError(l, h.Unlock(l.Context()))
				return "granted, and no replica has it"
			}
			if !errors.Is(err, holdfast.ErrNotReplicated) || !l.free() {
				return "refused with " + err.Error() + ", held by " + l.holder()
			}
			return ""
		},
	},
}
