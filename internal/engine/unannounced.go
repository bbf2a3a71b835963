package engine

import (
	"errors"

	"github.com/holdfast-go/holdfast/lua"
)

// ExplainUnannounced turns the server's refusal to announce a release into advice for the user.
// text is the server's error.
func ExplainUnannounced(b *Lock, text string) string {
	if reply := serverError(text); !lua.IsDenied(reply) {
		return b.backend.Explain(reply).Error()
	}
	return "permit this user to publish on " + b.wire.Channel() + ": " + text
}

// serverError is an error of the server that came as a part of a reply.
type serverError string

func (e serverError) Error() string { return string(e) }

// RedisError makes it an error of go-redis.
func (e serverError) RedisError() {}

// unannounced is the error of a release that the server did not announce. text is the server's
// error.
func unannounced(b *Lock, text string) error {
	return errors.New("released, but the waiters could not be told, and will find out by themselves later; " +
		ExplainUnannounced(b, text))
}
