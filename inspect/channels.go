package inspect

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/keys"
)

// channels tells the locks for whose release somebody listens.
func (w *walk) channels(ctx context.Context) error {
	nodes := []*redis.Client{}
	if w.cluster == nil {
		nodes = append(nodes, w.rdb.(*redis.Client))
	} else {
		var err error
		if nodes, err = collectNodes(ctx, w.cluster.ForEachShard); err != nil {
			return err
		}
	}
	names := make(map[string]bool)
	for _, node := range nodes {
		for _, pattern := range keys.Channels() {
			list, err := node.PubSubChannels(ctx, pattern).Result()
			if err != nil {
				return err
			}
			if w.sharded() {
				more, err := node.PubSubShardChannels(ctx, pattern).Result()
				if err != nil && !isReply(err) { // Redis 6 does not know the command
					return err
				}
				list = append(list, more...)
			}
			for _, channel := range list {
				if name, by := keys.Heard(channel); by != keys.NoTrace {
					names[name] = true
				}
			}
		}
	}
	sorted := make([]string, 0, len(names))
	for name := range names {
		if twin := keys.Twin(name); glob(w.Match, name) || twin != "" && glob(w.Match, twin) {
			sorted = append(sorted, name)
		}
	}
	slices.Sort(sorted)
	for chunk := range slices.Chunk(sorted, batch) {
		if w.over {
			return nil
		}
		if err := w.listened(ctx, chunk); err != nil {
			return err
		}
	}
	return nil
}

// listened looks at names for whose release somebody listens.
func (w *walk) listened(ctx context.Context, names []string) error {
	var locks []Lock
	for n, a := range w.query(ctx, names, w.opts.List) {
		if a.err != nil {
			return a.err
		}
		if a.other {
			if b := w.query(ctx, []string{keys.Twin(names[n])}, w.opts.List)[0]; b.err == nil && w.wanted(&b, keys.ByChannel) {
				locks = append(locks, b.lock)
			}
		}
		if w.wanted(&a, keys.ByChannel) {
			locks = append(locks, a.lock)
		}
	}
	return w.emit(ctx, locks)
}
