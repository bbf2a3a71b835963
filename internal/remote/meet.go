package remote

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/panics"
)

// Meet asks a server for its clock, unless the clock is known, and returns why that failed.
// (Rejected for quorums: to send a first request that the server refuses as late, so that the
// refusal has the time. A vote has to propose a token by that time.)
func (s *Server) Meet(ctx context.Context) (err error) {
	if s.Clock.isKnown() {
		return nil
	}
	defer panics.Into(&err)
	sent, cmd := time.Now(), askTime{redis.NewTimeCmd(ctx, "time")}
	_ = s.redis.Process(ctx, cmd) // the command keeps its error
	shown, err := cmd.Result()
	if err == nil {
		s.Clock.Saw(sent, strconv.FormatInt(shown.UnixMicro(), 10))
	}
	return err
}

// askTime is a TIME command that go-redis does not repeat: a repeated one takes longer than anybody
// waits for the answer, and shows the time less exactly.
type askTime struct{ *redis.TimeCmd }

// NoRetry is asked by go-redis.
func (askTime) NoRetry() bool { return true }
