package remote

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/panics"
)

// Meet has the clock of the server known: it asks for it once, and returns why it could not.
// (Rejected for quorums: to send what may not be executed, as single servers are, so that the
// refusal tells the time. A token has to be proposed before the first vote is sent.)
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

// askTime is TIME, sent once: what go-redis sends again takes longer than an answer is waited for,
// and tells less of the time.
type askTime struct{ *redis.TimeCmd }

// NoRetry is asked by go-redis.
func (askTime) NoRetry() bool { return true }
