insert into shop.large select {0} + 1, string_agg(md5(n::text), ''), array_agg(n * 7919), decode(string_agg(md5(n::text), ''), 'hex'),
  jsonb_object_agg(md5(n::text), n), hstore(array_agg(md5(n::text)), array_agg(n::text)), 1 from generate_series(1, 300) n;
