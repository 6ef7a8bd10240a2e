return { redis.call('ZCARD', waiting), redis.call('ZCARD', leased), redis.call('ZCARD', dead) }
